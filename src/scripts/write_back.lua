-- write_back: lifts the fencing counter to at least a token while our key is there. After generation.lua.
-- ARGV: 7 token. Reply: {1, generation to cache, counter}, or as in generation.lua.
local no = refusal() or not_ours()
if no then return no end
local c = math.max(tonumber(redis.call('GET', KEYS[2]) or '0'), tonumber(ARGV[7]))
local s = string.format('%.0f', c)
redis.call('SET', KEYS[2], s, 'PX', 86400000)
return {1, settled, s}
