-- verify: is our key there? After generation.lua. Reply: {1, generation to cache}, or as in generation.lua.
local no = refusal() or not_ours()
if no then return no end
return {1, settled}
