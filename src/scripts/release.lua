-- release: deletes our key and tells those who wait, or lets it live on for a while (the minimum hold). Before pass_on.lua.
-- KEYS: 1 lock, 2 the line of those who wait. ARGV: 1 our value on this master, 2 how long the key stays in ms ('0' = not),
-- 3 the channel on which to tell ('' = not), 4 '1' if they are told at once,
-- 5 the number under which the holder has waited itself ('0' = it has not), 6 how long an empty line is remembered in ms.
-- Reply: as pass_on.lua's, -1 absent, -2 held by another.
local cur = redis.pcall('GET', KEYS[1])
if cur ~= ARGV[1] then return cur and -2 or -1 end
if ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
redis.call('DEL', KEYS[1])
-- whoever may not read the line, change it or publish still releases
local line = ARGV[3] ~= '' and redis.pcall('GET', KEYS[2])
if type(line) ~= 'string' then return 1 end
local us, at_once, channel, idle, mark = ARGV[5], ARGV[4] == '1', ARGV[3], false, ARGV[6]
