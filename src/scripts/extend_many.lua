-- extend_many: renews the keys of many leases of one client, each as extend does. After generation.lua.
-- KEYS: 5, 7, 9, ... lock, 6, 8, 10, ... the value of a holder whose key was deleted by force.
-- ARGV: 7 '1' if an absent key is written again, 8, 10, 12, ... our value on this master, 9, 11, 13, ... new life in
-- ms.
-- Reply: {1, generation to cache, {code of each: 1 yes, 0 held by another, 2 absent, -2 another type}}, or as in
-- generation.lua.
local no = refusal()
if no then return no end
local codes = {}
for k = 1, (#KEYS - 4) / 2 do
  local key, value, life = KEYS[2 * k + 3], ARGV[2 * k + 6], ARGV[2 * k + 7]
  local cur = redis.pcall('GET', key)
  if type(cur) == 'table' then
    codes[k] = -2
  elseif cur and cur ~= value or not cur and redis.call('GET', KEYS[2 * k + 4]) == value then
    codes[k] = 0
  elseif not cur and ARGV[7] ~= '1' then
    codes[k] = 2
  else
    if not cur then
      redis.call('SET', key, value, 'PX', life)
    elseif redis.call('PTTL', key) < tonumber(life) then
      redis.call('PEXPIRE', key, life)
    end
    codes[k] = 1
  end
end
return {1, settled, codes}
