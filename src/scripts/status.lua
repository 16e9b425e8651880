-- status: what this master knows of a lock; writes nothing.
-- KEYS: 1 lock, 2 fencing counter, 3 generation.
-- Reply: {type, value or '', ttl ms, counter or '', generation or '', clock us}.
local kind = redis.call('TYPE', KEYS[1]).ok
local value = kind == 'string' and redis.call('GET', KEYS[1]) or ''
local t = redis.call('TIME')
return {kind, value, redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[2]) or '', redis.call('GET', KEYS[3]) or '',
  string.format('%.0f', t[1] * 1000000 + t[2])}
