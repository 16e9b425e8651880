-- blank: reports what stands on this master; marks it if it is new and empty, and the init wants that.
-- KEYS: 1 generation. ARGV: 1 identity of this connection's server, 2 nonce of the mark ('' = only look).
-- Reply: {generation, mark or '', number of other keys, 1 if the generation is of this server and votes, else 0}.
local g = redis.call('GET', KEYS[1])
local others = redis.call('DBSIZE') - (g and 1 or 0)
if not g and others == 0 and ARGV[2] ~= '' then
  g = 'init:' .. ARGV[1] .. ':' .. ARGV[2]
  redis.call('SET', KEYS[1], g, 'PX', 10000)
end
