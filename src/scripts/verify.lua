-- verify: is our key there? After generation.lua. Reply: {1, generation to cache}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if not cur then return {2} end
if cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
return {1, settled}
