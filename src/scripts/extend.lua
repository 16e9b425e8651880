-- extend: renews our key; it shortens no key's life, so that a straggler of an earlier extension is harmless.
-- After generation.lua.
-- ARGV: 7 new life of the key in ms, 8 '1' if an absent key is written again (only where the quarantine is in force).
-- Reply: {1, generation to cache}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if cur and cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
if not cur and revoked() then return {0, 0} end
if not cur and ARGV[8] ~= '1' then return {2} end
if not cur then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[7]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[7])
end
return {1, settled}
