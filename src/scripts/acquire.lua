-- acquire: writes our value if the key is absent. After generation.lua.
-- KEYS: 5 the line of those who wait, as pass_on.lua has it.
-- ARGV: 7 life of the key in ms, 8 '1' to raise the fencing counter, 9 how long we stay in the line, in ms, if the
-- key is another's ('0' = we do not wait), 10 how long we have waited already in us, 11 for how long in us
-- the key is left alone, though it is absent, since the turn of somebody in the line began (0 = not), 12 our number in the line.
-- Reply: {1, generation to cache, counter or ''}, or as in generation.lua.
local no = refusal()
if no then return no end
local cur, bad = holder()
if bad then return bad end
if cur == ARGV[1] then return {0, -9} end
local waits = ARGV[9] ~= '0'
local line = waits and redis.pcall('GET', KEYS[5])
if type(line) ~= 'string' then line = '' end
local now, told = waits and now_us(), string.match(line, '^%d+')
local refused = cur or (told and now - told < tonumber(ARGV[11]))
if waits and (refused or told) then
  -- the line anew: whose time is not over, by when they came, and we if we wait on; no more than 64
  local us, since = nil, math.max(now - ARGV[10], 1)
  if refused then us = string.format('%.0f:%s:%.0f', since, ARGV[12], now + ARGV[9] * 1000) end
  local all, life = {refused and told or string.format('%.0f', now)}, tonumber(ARGV[9])
  for entry, came, number, till in string.gmatch(line, ',((%d+):(%d+):(%d+))') do
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
-- a moment, after which whoever was told has come or will not
if refused then return {0, cur and redis.call('PTTL', KEYS[1]) or math.ceil(ARGV[11] / 1000)} end
local c = ''
if ARGV[8] == '1' then
  c = raise()
  if not c then return {-5} end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[7])
return {1, settled, c}
