-- rights: may this user run what the other scripts run? Tries each command on a key that nothing else uses, so that no
-- command changes anything.
-- KEYS: 1 that key. Reply: for each command that the user may not run, its name and what the server answers.
local refused = {}
for _, words in ipairs({
  {'GET', KEYS[1]}, {'SET', KEYS[1], '', 'XX'}, {'DEL', KEYS[1]}, {'PEXPIRE', KEYS[1], '1'}, {'PTTL', KEYS[1]},
  {'TYPE', KEYS[1]}, {'TIME'}, {'INFO', 'replication'},
}) do
  local reply = redis.pcall(unpack(words))
  local text = type(reply) == 'table' and reply.err or ''
  local function says(what) return string.find(text, what, 1, true) end
  if says('NOPERM') or says('executing the script') or says('ACL') then
    refused[#refused + 1] = string.lower(words[1])
    refused[#refused + 1] = text
  end
end
return refused
