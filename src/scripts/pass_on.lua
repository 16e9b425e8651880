-- pass_on: tells whoever has waited longest that the lock is free, and takes it out of the line; and the next, that it stands
-- first now. After release.lua and tell.lua, which say: `line` as it is stored, `us`: our own number in it ('0' = none), `at_once`,
-- `channel`, `idle`: nobody is on the way, and `mark`: how long in ms an empty line is remembered.
-- The line, all by this server's clock in us: when the last turn of somebody in it began (it was told, or has taken the lock;
-- before that: when the first came), and for each that waits, the one that has waited longest first, since when, its number, and until
-- when: TURN,SINCE:NUMBER:UNTIL,...
-- Reply: 1 nobody waits, 2 told, 3 somebody waits and is not told.
-- whether they are all gone, or are we ourselves, shows when they are told
if not at_once and string.find(line, ',', 1, true) then return 3 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local rest, life, first, second = {string.format('%.0f', now)}, tonumber(mark), nil, nil
for entry, number, till in string.gmatch(line, ',(%d+:(%d+):(%d+))') do
  local left = (tonumber(till) - now) / 1000
  if number ~= us and left > 0 then
    if first then
      rest[#rest + 1], second = entry, second or number
    else
      first = number
    end
    life = math.max(life, math.ceil(left))
  end
end
if not first then
  if idle then redis.pcall('DEL', KEYS[2]) end
  return 1
end
redis.pcall('SET', KEYS[2], table.concat(rest, ','), 'PX', string.format('%.0f', life))
-- a waiter's number begins with its client's: each client has a channel
local function say(place, number)
  redis.pcall('PUBLISH', string.format('%s:%.0f', channel, math.floor(number / 268435456)), place .. ':' .. number)
end
say('1', first)
if second then say('2', second) end
return 2
