-- release: deletes our key and notifies the first waiter, or lets the key live on (the minimum hold). Before
-- notify_first.lua.
-- KEYS: 1 lock, 2 the wait list. ARGV: 1 our value on this master, 2 how long the key stays in ms ('0' = not), 3 the
-- channel of notifications ('' = notify nobody), 4 '1' to notify at once, 5 the number under which the holder's process
-- has waited itself ('0' = it has not), 6 how long an empty list stays in ms.
-- Reply: as notify_first.lua's, -1 absent, -2 held by another.
local cur = redis.pcall('GET', KEYS[1])
if cur ~= ARGV[1] then return cur and -2 or -1 end
if ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
redis.call('DEL', KEYS[1])
-- a user that may not read the wait list, change it or publish still releases
local list = ARGV[3] ~= '' and redis.pcall('GET', KEYS[2])
if type(list) ~= 'string' then return 1 end
local us, at_once, channel, idle, memory = ARGV[5], ARGV[4] == '1', ARGV[3], false, ARGV[6]
