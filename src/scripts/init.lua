-- init: begins a generation that votes at once, on a master that bears the mark of this init and has not been used
-- since; or removes the mark.
-- KEYS: 1 generation. ARGV: 1 identity of this connection's server, 2 nonce of the mark, 3 deployment
-- (max_lease_ms:deployment:N:q), 4 '1' to settle, '0' to remove the mark.
-- Reply: as blank.lua's.
local g = redis.call('GET', KEYS[1])
local others = redis.call('DBSIZE') - (g and 1 or 0)
-- Proof obligation: an init that comes late finds no mark on a master that has forgotten since (FLUSHALL; or a restart,
-- for the mark has the identity), nor on one that was asked to vote. Else a master that forgot would vote at once.
if g == 'init:' .. ARGV[1] .. ':' .. ARGV[2] and others == 0 then
  if ARGV[4] == '1' then
    local t = redis.call('TIME')
    g = ARGV[1] .. ':' .. string.format('%.0f', t[1] * 1000000 + t[2]) .. ':' .. ARGV[3] .. ':' .. ARGV[2]
    redis.call('SET', KEYS[1], g)
  else
    g = false
    redis.call('DEL', KEYS[1])
  end
end
