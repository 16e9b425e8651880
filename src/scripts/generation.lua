-- Stands before every script whose answer is counted: may this master vote?
-- KEYS: 1 lock, 2 fencing counter, 3 generation, 4 the value of a holder whose key was deleted by force.
-- ARGV: 1 our value on this master, 2 the settled generation cached by this connection ('' = none; '-' = none, and a
-- master without a generation may vote: a client without quarantine), 3 identity of this connection's server at its
-- handshake: 24 digits of the run id and 24 of the replication id, 4 deployment (max_lease_ms:deployment:N:q), 5 nonce
-- for a generation begun here, 6 length of a quarantine in us.
-- Replies of all scripts are {code, ...}: 1 yes, 0 held by another {ttl ms}, 2 absent, -1 in quarantine {ms},
-- -2 the key has another type {type}, -4 another deployment {theirs}, -5 fencing counter at its limit, -6 since the
-- handshake this server has become a replica, or has been one: this connection cannot be used any more.
local settled = ''
local function now_us()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
-- whether the server has another role or history than at the handshake. Its run id is the same: a connection ends with
-- its process.
local function changed()
  local text = redis.call('INFO', 'replication')
  return not string.find(text, 'role:master', 1, true)
    or not string.find(text, 'master_replid:' .. string.sub(ARGV[3], 25), 1, true)
end
-- nil if an answer of this script counts, else the reply that says why not
local function refusal()
  local g = redis.call('GET', KEYS[3])
  if g and g == ARGV[2] then return nil end
  local run, ready, block
  if g then run, ready, block = string.match(g, '^(%x*):(%d+):(.+):%x+$') end
  -- without quarantine: a master without a generation, or with the mark of an init, votes; where a generation stands,
  -- its rules hold
  if ARGV[2] == '-' and not run then
    if g and string.sub(g, 1, 5) ~= 'init:' then return {-4, 'unknown'} end
    settled = '-'
    return nil
  end
  -- before a generation is begun, and in every vote of a connection that caches none
  if changed() then return {-6} end
  local now = now_us()
  -- another deployment first: a restart with its data must not be judged by our, maybe shorter, longest lease
  -- (an identity of another length: by an older version)
  if run and (block ~= ARGV[4] or #run ~= #ARGV[3]) then return {-4, block} end
  -- Proof obligation: a quarantine that ends later than a whole one from now (the clock was stepped back) may begin
  -- anew, although that makes it shorter: the new one is a whole one, and covers every lease from before this moment.
  if not run or run ~= ARGV[3] or ready - now > tonumber(ARGV[6]) then
    local ready_at = string.format('%.0f', now + ARGV[6])
    redis.call('SET', KEYS[3], ARGV[3] .. ':' .. ready_at .. ':' .. ARGV[4] .. ':' .. ARGV[5])
    return {-1, math.ceil(ARGV[6] / 1000)}
  end
  if now < tonumber(ready) then return {-1, math.ceil((tonumber(ready) - now) / 1000)} end
  settled = g
  return nil
end
-- the value of the lock key: a string, or false; and a refusal if it is something else
local function holder()
  local v = redis.pcall('GET', KEYS[1])
  if type(v) == 'table' then return false, {-2, redis.call('TYPE', KEYS[1]).ok} end
  return v, nil
end
-- whether our key was deleted by force: then another client may hold the lock, and our key is not written again
local function revoked()
  return redis.call('GET', KEYS[4]) == ARGV[1]
end
-- nil if our value is there, else the reply that says what is
local function not_ours()
  local cur, bad = holder()
  if bad then return bad end
  if not cur then return revoked() and {0, 0} or {2} end
  if cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end
  return nil
end
-- raises the fencing counter by 64, at least to this master's clock in us
local function raise()
  local c = math.max(tonumber(redis.call('GET', KEYS[2]) or '0') + 64, now_us())
  if c > 9007199254740992 - 64 then return nil end
  local s = string.format('%.0f', c)
  redis.call('SET', KEYS[2], s, 'PX', 86400000)
  return s
end
