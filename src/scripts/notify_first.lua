-- notify_first: takes the first waiter out of the wait list and notifies it that the lock is free. After release.lua
-- and notify.lua, which set: `list` as it is stored, `us`: our own number in it ('0' = none), `at_once`, `channel`,
-- `idle`: nobody is about to take the lock, and `memory`: how long in ms an empty list stays.
-- The wait list, all by this server's clock in us: when the last quantum began (a waiter was notified or has taken the
-- lock; before that: when the first came), and for each waiter, the one that has waited longest first, since when, its
-- number, and until when its place is kept: BEGUN,SINCE:NUMBER:UNTIL,...
-- Reply: 1 nobody waits, 2 notified, 3 somebody waits and is not notified.

-- an entry whose time is over, or our own, is looked for only when one is notified
if not at_once and string.find(list, ',', 1, true) then return 3 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local rest, life, first = {string.format('%.0f', now)}, tonumber(memory), nil
for entry, number, till in string.gmatch(list, ',(%d+:(%d+):(%d+))') do
  local left = (tonumber(till) - now) / 1000
  if number ~= us and left > 0 then
    if first then rest[#rest + 1] = entry else first = number end
    life = math.max(life, math.ceil(left))
  end
end
if not first then
  if idle then redis.pcall('DEL', KEYS[2]) end
  return 1
end
redis.pcall('SET', KEYS[2], table.concat(rest, ','), 'PX', string.format('%.0f', life))
-- a waiter's number begins with its client's: each client has a channel
redis.pcall('PUBLISH', string.format('%s:%.0f', channel, math.floor(first / 268435456)), first)
return 2
