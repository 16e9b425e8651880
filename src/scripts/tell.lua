-- tell: tells those who wait that the lock is free, if it still is. Before pass_on.lua.
-- KEYS: 1 lock, 2 the line of those who wait. ARGV: 1 the channel, 2 the number under which the last holder has waited itself
-- ('0' = it has not), 3 how long an empty line is remembered in ms.
-- Reply: as pass_on.lua's, 0 there is no line, or the lock is taken.
local line = redis.pcall('GET', KEYS[2])
if type(line) ~= 'string' or redis.pcall('GET', KEYS[1]) then return 0 end
local us, at_once, channel, idle, mark = ARGV[2], true, ARGV[1], true, ARGV[3]
