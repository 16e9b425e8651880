-- acquire: writes our value if the key is absent. After generation.lua.
-- ARGV: 7 life of the key in ms, 8 proposal for the fencing counter in us ('' = not asked for).
-- Reply: {1, generation to cache, counter or ''}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if cur then return {0, cur == ARGV[1] and -9 or redis.call('PTTL', KEYS[1])} end
local c = ''
if ARGV[8] ~= '' then
  c = raise(ARGV[8])
  if not c then return {-5} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
return {1, settled, c}
