-- notify: notifies the first waiter that the lock is free, if it still is. Before notify_first.lua.
-- KEYS: 1 lock, 2 the wait list. ARGV: 1 the channel of notifications, 2 the number under which the last holder's
-- process has waited itself ('0' = it has not), 3 how long an empty list stays in ms.
-- Reply: as notify_first.lua's, 0 there is no wait list, or the lock is taken.
local list = redis.pcall('GET', KEYS[2])
if type(list) ~= 'string' or redis.pcall('GET', KEYS[1]) then return 0 end
local us, at_once, channel, idle, memory = ARGV[2], true, ARGV[1], true, ARGV[3]
