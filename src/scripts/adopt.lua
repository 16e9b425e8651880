-- adopt: replaces the value of an owner that has given up by ours; an absent key is not written. After generation.lua.
-- A renewal of the former owner may still be under way on another connection, and arrive when our key is absent again.
-- So the former value is kept where values that were deleted by force are kept: then no renewal writes it again. A
-- value that is kept there already stays, because what was taken by force must not come back either.
-- ARGV: 7 new life of the key in ms, 8 the former owner's value on this master.
-- Reply: {1, generation to cache}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if not cur then return {2} end
if cur ~= ARGV[8] and cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
if cur == ARGV[8] then redis.call('SET', KEYS[4], cur, 'PX', ARGV[7], 'NX') end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
return {1, settled}
