-- status: reports what this master knows of a lock; writes nothing.
-- KEYS: 1 lock, 2 fencing counter, 3 generation.
-- Reply: {type, value or '', ttl ms, counter or '', generation or '', clock us}.
-- A replica lags behind its master: it may not know of a lock that was taken a moment ago.
if not string.find(redis.call('INFO', 'replication'), 'role:master', 1, true) then
  return redis.error_reply('READONLY this server is a replica')
end
local kind = redis.call('TYPE', KEYS[1]).ok
local value = kind == 'string' and redis.call('GET', KEYS[1]) or ''
local t = redis.call('TIME')
return {kind, value, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or '',
  string.format('%.0f', t[1] * 1000000 + t[2])}
