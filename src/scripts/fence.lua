-- fence: raises the fencing counter while our key is there. After generation.lua.
-- Reply: {1, generation to cache, counter}, or as in generation.lua.
local no = refusal() or not_ours()
if no then return no end
local c = raise()
if not c then return {-5} end
return {1, settled, c}
