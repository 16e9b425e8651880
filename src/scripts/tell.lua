-- tell: tells those who wait that the lock is free, if it still is. KEYS: 1 lock, 2 who waits. ARGV: 1 the channel.
-- Reply: 1 told, 0 nobody to tell or the lock is taken.
local word = redis.pcall('GET', KEYS[2])
if type(word) ~= 'string' or redis.pcall('GET', KEYS[1]) then return 0 end
local n, longest = string.match(word, '^(%d+):%d+:(%d+)$')
if n == '0' then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
redis.pcall('SET', KEYS[2], string.format('0:%.0f:%.0f', now, now), 'PX', 20)
redis.pcall('PUBLISH', ARGV[1], n and string.format('%s:%.0f', n, math.max(now - longest, 0)) or '1')
return 1
