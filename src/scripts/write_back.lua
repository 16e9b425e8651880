-- write_back: lifts the fencing counter to at least a token while our key is there. After generation.lua.
-- ARGV: 7 token. Reply: {1, generation to cache, counter}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if not cur then return {2} end
if cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
local c = math.max(tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[7]))
local s = string.format('%.0f', c)
redis.call('SET', KEYS[2], s, 'PX', 86400000)
return {1, settled, s}
