-- acquire: writes our value if the key is absent. After generation.lua.
-- KEYS: 5 who waits: how many said so, since when, and the two that have waited longest: since when, and their numbers.
-- ARGV: 7 life of the key in ms, 8 proposal for the fencing counter in us ('' = not asked for), 9 how long to leave word
-- that somebody waits, in ms, if the key is another's ('0' = not), 10 how long it has waited already in us, 11 for how
-- long in us the key is left alone, though it is absent, since somebody else has left word or was told (0 = not), 12 the waiter's number.
-- Reply: {1, generation to cache, counter or ''}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if cur == ARGV[1] then return {0, -9} end
local word = ARGV[9] ~= '0' and redis.pcall('GET', KEYS[5])
local now = ARGV[9] ~= '0' and now_us()
local n, since, t1, w1, t2, w2
if type(word) == 'string' then n, since, t1, w1, t2, w2 = string.match(word, '^(%d+):(%d+):(%d+):(%d+):(%d+):(%d+)$') end
if cur or (n and now - since < tonumber(ARGV[11])) then
  if ARGV[9] ~= '0' then
    local t, w = string.format('%.0f', math.max(now - ARGV[10], 1)), ARGV[12]
    if not n then n, since, t1, w1, t2, w2 = '0', string.format('%.0f', now), '0', '0', '0', '0' end
    -- the two that have waited longest, each once
    if w1 == w then t1, w1, t2, w2 = t2, w2, '0', '0' elseif w2 == w then t2, w2 = '0', '0' end
    if w1 == '0' or tonumber(t) < tonumber(t1) then t1, w1, t2, w2 = t, w, t1, w1
    elseif w2 == '0' or tonumber(t) < tonumber(t2) then t2, w2 = t, w end
    redis.pcall('SET', KEYS[5], string.format('%.0f:%s:%s:%s:%s:%s', n + 1, since, t1, w1, t2, w2), 'PX', ARGV[9])
  end
  -- a moment, after which whoever was told has come or will not
  return {0, cur and redis.call('PTTL', KEYS[1]) or math.ceil(ARGV[11] / 1000)}
end
local c = ''
if ARGV[8] ~= '' then
  c = raise(ARGV[8])
  if not c then return {-5} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
return {1, settled, c}
