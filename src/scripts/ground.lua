-- ground: the reply of blank.lua and init.lua, which stand before it and say: `g`, what stands for the generation, and `others`.
local votes = 0
if g and string.sub(g, 1, #ARGV[1] + 1) == ARGV[1] .. ':' then
  local t = redis.call('TIME')
  local ready = string.match(g, '^%x*:(%d+):.+:%x+$')
  if ready and t[1] * 1000000 + t[2] >= tonumber(ready) then votes = 1 end
end
return {g or '', others, votes}
