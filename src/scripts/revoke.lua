-- revoke: takes the lock from its holder. The key keeps its ttl, so that nobody else is granted before the lease of the
-- former holder has ended; its value becomes nobody's. Raises the fencing counter.
-- KEYS: 1 lock, 2 fencing counter, 3 the value that was deleted by force.
-- ARGV: 1 the value that is nobody's, 2 '1' to delete the key instead.
-- Reply: {1, ttl ms}, {2} if the lock is free, {-2, type}.
local cur = redis.pcall('GET', KEYS[1])
if not cur then return {2} end
if type(cur) == 'table' then return {-2, redis.call('TYPE', KEYS[1]).ok} end
local ttl = redis.call('PTTL', KEYS[1])
if ARGV[2] == '1' then
  redis.call('DEL', KEYS[1])
  if ttl > 0 then redis.call('SET', KEYS[3], cur, 'PX', ttl) end
else
  redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
end
local c = tonumber(redis.call('GET', KEYS[2]) or '0')
if c > 0 and c < 9007199254740992 - 64 then
  redis.call('SET', KEYS[2], string.format('%.0f', c + 64), 'PX', 86400000)
end
return {1, math.max(ttl, 0)}
