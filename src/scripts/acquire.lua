-- acquire: writes our value if the key is absent. After generation.lua.
-- KEYS: 5 who waits: how many said so, since when, and since when who waits longest has waited.
-- ARGV: 7 life of the key in ms, 8 proposal for the fencing counter in us ('' = not asked for), 9 how long to leave word
-- that somebody waits, in ms, if the key is another's ('0' = not), 10 how long it has waited already in us, 11 for how
-- long in us the key is left alone, though it is absent, since somebody else has left word or was told (0 = not).
-- Reply: {1, generation to cache, counter or ''}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if cur == ARGV[1] then return {0, -9} end
local word, n, since, longest, now = ARGV[9] ~= '0' and redis.pcall('GET', KEYS[5]), nil, nil, nil, now_us()
if type(word) == 'string' then n, since, longest = string.match(word, '^(%d+):(%d+):(%d+)$') end
if cur or (n and now - since < tonumber(ARGV[11])) then
  if ARGV[9] ~= '0' then
    longest = math.max(math.min(tonumber(longest) or now, now - ARGV[10]), 0)
    word = string.format('%.0f:%.0f:%.0f', (tonumber(n) or 0) + 1, tonumber(since) or now, longest)
    redis.pcall('SET', KEYS[5], word, 'PX', ARGV[9])
  end
  -- a moment, after which whoever was told has come or will not
  return {0, cur and redis.call('PTTL', KEYS[1]) or 6}
end
local c = ''
if ARGV[8] ~= '' then
  c = raise(ARGV[8])
  if not c then return {-5} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
return {1, settled, c}
