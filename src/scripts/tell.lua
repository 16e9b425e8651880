-- tell: tells those who wait that the lock is free, if it still is. KEYS: 1 lock, 2 who waits. ARGV: 1 the channel, 2 the
-- number under which the last holder has waited itself ('0' = it has not), 3 how long the mark of the tale stays in ms.
-- Reply: 1 told, 0 nobody to tell or the lock is taken.
local word = redis.pcall('GET', KEYS[2])
if type(word) ~= 'string' or redis.pcall('GET', KEYS[1]) then return 0 end
local n, _, _, first, _, second = string.match(word, '^(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
if n == '0' then
  -- whoever was told has come and gone: the lock is anybody's
  redis.pcall('DEL', KEYS[2])
  return 0
end
local t = redis.call('TIME')
redis.pcall('SET', KEYS[2], string.format('0:%.0f:0:0:0:0', t[1] * 1000000 + t[2]), 'PX', ARGV[3])
if first == ARGV[2] then first = second end
redis.pcall('PUBLISH', ARGV[1], n and first ~= '0' and n .. ':' .. first or n or '1')
return 1
