-- notify: notifies the first waiter that the lock is free, if it still is; if not, takes our own entry out of the wait
-- list. Before notify_first.lua.
-- KEYS: 1 lock, 2 the wait list. ARGV: 1 the channel of notifications, 2 our number in the wait list: the last
-- holder's, or that of a waiter that has given up ('0' = none), 3 how long an empty list stays in ms. Reply: as
-- notify_first.lua's, 0 there is no wait list, or the lock is taken.
local list = redis.pcall('GET', KEYS[2])
if type(list) ~= 'string' then return 0 end
if redis.pcall('GET', KEYS[1]) then
  local others = string.gsub(list, ',%d+:' .. ARGV[2] .. ':%d+', '')
  if others ~= list then redis.pcall('SET', KEYS[2], others, 'KEEPTTL') end
  return 0
end
local us, at_once, channel, idle, memory = ARGV[2], true, ARGV[1], true, ARGV[3]
