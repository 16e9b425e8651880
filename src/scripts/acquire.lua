-- acquire: writes our value if the key is absent; if it is refused, takes a place in the wait list. After
-- generation.lua.
-- KEYS: 5 the wait list, as notify_first.lua has it.
-- ARGV: 7 life of the key in ms, 8 '1' to raise the fencing counter, 9 how long our place in the wait list is kept, in
-- ms ('0' = we do not wait), 10 how long we have waited already in us, 11 the yield window in us: refuse, even if the
-- key is absent, while another's quantum is this young ('0' = we were notified), 12 our number in the wait list.
-- Reply: {1, generation to cache, counter or ''}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if cur == ARGV[1] then return {0, -9} end
local waits = ARGV[9] ~= '0'
local list = waits and redis.pcall('GET', KEYS[5])
if type(list) ~= 'string' then list = '' end
local now, begun = waits and now_us(), string.match(list, '^%d+')
local refused = cur or (begun and now - begun < tonumber(ARGV[11]))
if waits and (refused or begun) then
  -- the list anew, by who came first: all whose time is not over, we only if we are refused, and no more than 63
  local us, since = nil, math.max(now - ARGV[10], 1)
  if refused then us = string.format('%.0f:%s:%.0f', since, ARGV[12], now + ARGV[9] * 1000) end
  local all, life = {refused and begun or string.format('%.0f', now)}, tonumber(ARGV[9])
  for entry, came, number, till in string.gmatch(list, ',((%d+):(%d+):(%d+))') do
    local left = (tonumber(till) - now) / 1000
    if number ~= ARGV[12] and left > 0 and #all < 64 then
      if us and since < tonumber(came) then
        all[#all + 1], us = us, nil
      end
      all[#all + 1] = entry
      life = math.max(life, math.ceil(left))
    end
  end
  if #all < 64 then all[#all + 1] = us end
  redis.pcall('SET', KEYS[5], table.concat(all, ','), 'PX', string.format('%.0f', life))
end
-- if the key is absent: when the yield window is over at the latest
if refused then return {0, cur and redis.call('PTTL', KEYS[1]) or math.ceil(ARGV[11] / 1000)} end
local c = ''
if ARGV[8] == '1' then
  c = raise()
  if not c then return {-5} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
return {1, settled, c}
