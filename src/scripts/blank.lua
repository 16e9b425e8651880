-- blank: is this master new and empty? Writes nothing. KEYS: 1 generation. Reply: {generation or '', number of keys}.
return {redis.call('GET', KEYS[1]) or '', redis.call('DBSIZE')}
