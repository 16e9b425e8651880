-- fence: raises the fencing counter while our key is there. After generation.lua.
-- ARGV: 7 proposal in us. Reply: {1, generation to cache, counter}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if not cur then return {2} end
if cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
local c = raise(ARGV[7])
if not c then return {-5} end
return {1, settled, c}
