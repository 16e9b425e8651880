-- release: deletes our key and tells those who wait, or lets it live on for a while (the minimum hold).
-- KEYS: 1 lock, 2 who waits. ARGV: 1 our value on this master, 2 how long the key stays in ms ('0' = not),
-- 3 the channel on which to tell ('' = not), 4 '1' if they are told at once,
-- 5 the number under which the holder has waited itself ('0' = it has not), 6 how long the mark of a tale stays in ms.
-- Reply: 1 done, 2 done and told, 3 done and not told, -1 absent, -2 held by another.
local cur = redis.pcall('GET', KEYS[1])
if cur ~= ARGV[1] then return cur and -2 or -1 end
if ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
redis.call('DEL', KEYS[1])
-- whoever may not read the word, delete it or publish still releases
local word = ARGV[3] ~= '' and redis.pcall('GET', KEYS[2])
if type(word) ~= 'string' then return 1 end
local n, _, _, first, _, second = string.match(word, '^(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$')
-- with a mark alone, others may be about to leave word again
if ARGV[4] ~= '1' or n == '0' then return 3 end
local t = redis.call('TIME')
-- whoever is told has its turn: a mark stands for the word until others have left word again
redis.pcall('SET', KEYS[2], string.format('0:%.0f:0:0:0:0', t[1] * 1000000 + t[2]), 'PX', ARGV[6])
if first == ARGV[5] then first = second end
redis.pcall('PUBLISH', ARGV[3], n and first ~= '0' and n .. ':' .. first or n or '1')
return 2
