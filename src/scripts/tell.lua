-- tell: tells those who wait that the lock is free, if it still is. KEYS: 1 lock, 2 who waits. ARGV: 1 the channel.
-- Reply: 1 told, 0 nobody to tell or the lock is taken.
local word = redis.pcall('GET', KEYS[2])
if type(word) ~= 'string' or redis.pcall('GET', KEYS[1]) then return 0 end
redis.pcall('DEL', KEYS[2])
local n, longest = string.match(word, '^(%d+):%d+:(%d+)$')
local t = redis.call('TIME')
redis.pcall('PUBLISH', ARGV[1], n and string.format('%s:%.0f', n, math.max(t[1] * 1000000 + t[2] - longest, 0)) or '1')
return 1
