-- ground: the reply of blank.lua and init.lua, which stand before it and set `g` (the generation, or a mark) and
-- `others` (the number of other keys).
local votes = 0
if g and string.sub(g, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  local t = redis.call('TIME')
  local ready = string.match(g, '^%x*:(%d+):.+:%x+$')
  if ready and t[1] * 1000000 + t[2] >= tonumber(ready) then votes = 1 end
end
return {g or '', others, votes}
