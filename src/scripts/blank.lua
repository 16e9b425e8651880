-- blank: is this master new and empty? If so, it is marked for the init that asks; the mark of another init is replaced.
-- KEYS: 1 generation. ARGV: 1 nonce. Reply: {'', 0} if it is, else {generation or '', number of keys}.
local g = redis.call('GET', KEYS[1])
local n = redis.call('DBSIZE')
if n > 1 or n == 1 and not (g and string.match(g, '^init:')) then return {g or '', n} end
redis.call('SET', KEYS[1], 'init:' .. ARGV[1], 'PX', 60000)
return {'', 0}
