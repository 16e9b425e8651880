-- fence: raises the fencing counter while our key is there. After generation.lua.
-- ARGV: 7 proposal in us. Reply: {1, generation to cache, counter}, or as in generation.lua.
local no = refusal() or not_ours()
if no then return no end
local c = raise(ARGV[7])
if not c then return {-5} end
return {1, settled, c}
