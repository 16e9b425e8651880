-- init: begins a generation that votes at once, on a master that is new and empty.
-- KEYS: 1 generation. ARGV: 1 run id, 2 deployment (max_lease_ms:cluster:N:q), 3 nonce.
-- Reply: {1}, or {generation or '', number of keys} if it is not new and empty.
local g, n = redis.call('GET', KEYS[1]), redis.call('DBSIZE')
if g or n > 0 then return {g or '', n} end
local t = redis.call('TIME')
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. string.format('%.0f', t[1] * 1000000 + t[2]) .. ':' .. ARGV[2] .. ':' .. ARGV[3])
return {1}
