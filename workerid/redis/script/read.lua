-- read returns everything that is known of the pool. It writes nothing.
return {
  int(raw), info, redis.call('HGETALL', meta), redis.call('HGETALL', stats), redis.call('ZRANGE', ids, 0, -1, 'WITHSCORES'),
  redis.call('HGETALL', clients), redis.call('HGETALL', marks),
}
