-- release: deletes our key and announces it, or lets it live on for a while (the minimum hold).
-- KEYS: 1 lock. ARGV: 1 our value on this master, 2 channel, 3 message, 4 how long the key stays in ms ('0' = not).
-- Reply: number of receivers of the message (>= 0), -1 absent, -2 held by another.
local cur = redis.pcall('GET', KEYS[1])
if cur ~= ARGV[1] then return cur and -2 or -1 end
if ARGV[4] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return 0
end
redis.call('DEL', KEYS[1])
-- the lock is free whether or not this user may say so
local n = redis.pcall('PUBLISH', ARGV[2], ARGV[3])
return type(n) == 'number' and n or 0
