-- free ends a lease that nobody gives back. Its mark stays, so whoever still issues from its window does no harm.
--
-- ARGV: worker
local id = member(tonumber(ARGV[11]))
if redis.call('ZSCORE', ids, id) == false then return {err = 'KATSU_NOINIT absent'} end
local owner, ended = redis.call('HGET', clients, id), expiry(id)
if lost then begin() end
save()
redis.call('HDEL', clients, id)
redis.call('ZADD', ids, score(math.max(now, floor)), id)
return {int(raw), owner or '', int(ended), int((record(id)))}
