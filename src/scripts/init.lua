-- init: begins a generation that votes at once, on a master that has been marked for it and is still as it was then.
-- KEYS: 1 generation. ARGV: 1 identity, 2 deployment (max_lease_ms:cluster:N:q), 3 nonce, as in the mark.
-- Reply: {1}, or {generation or '', number of keys}.
local g = redis.call('GET', KEYS[1])
local n = redis.call('DBSIZE')
-- Proof obligation: an init that comes late finds no mark on a master that has forgotten since (FLUSHALL, restart), nor on one
-- that was asked for votes; else a master that forgot would vote at once (seed 116696 of a run of a million).
if g ~= 'init:' .. ARGV[3] or n ~= 1 then return {g or '', n} end
local t = redis.call('TIME')
redis.call('SET', KEYS[1], ARGV[1] .. ':' .. string.format('%.0f', t[1] * 1000000 + t[2]) .. ':' .. ARGV[2] .. ':' .. ARGV[3])
return {1}
