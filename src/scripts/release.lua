-- release: deletes our key, or lets it live on for a while (the minimum hold).
-- KEYS: 1 lock. ARGV: 1 our value on this master, 2 how long the key stays in ms ('0' = not).
-- Reply: 1 done, -1 absent, -2 held by another.
local cur = redis.pcall('GET', KEYS[1])
if cur ~= ARGV[1] then return cur and -2 or -1 end
if ARGV[2] == '0' then redis.call('DEL', KEYS[1]) else redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
