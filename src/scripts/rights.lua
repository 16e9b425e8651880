-- rights: may this user run what the other scripts run? Tries each command on a key that nothing else uses, so that none of them
-- changes anything. KEYS: 1 that key. Reply: for each command that the user may not run, its name and what the server says.
local missing = {}
for _, words in ipairs({
  {'GET', KEYS[1]}, {'SET', KEYS[1], '', 'XX'}, {'DEL', KEYS[1]}, {'PEXPIRE', KEYS[1], '1'}, {'PTTL', KEYS[1]},
  {'TYPE', KEYS[1]}, {'TIME'}, {'INFO', 'replication'},
}) do
  local reply = redis.pcall(unpack(words))
  local text = type(reply) == 'table' and reply.err or ''
  if string.find(text, 'NOPERM', 1, true) or string.find(text, 'executing the script', 1, true) or string.find(text, 'ACL', 1, true) then
    missing[#missing + 1] = string.lower(words[1])
    missing[#missing + 1] = text
  end
end
return missing
