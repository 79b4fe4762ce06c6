-- free ends a lease that nobody gives back. Its mark stays, so whoever still issues from its window does no harm. And nobody gets the worker
-- id before that is over: else a holder who comes back after a loss would find nothing against having its window lengthened.
--
-- ARGV: worker
local id = member(tonumber(ARGV[11]))
if redis.call('ZSCORE', ids, id) == false then return {err = 'KATSU_NOINIT absent'} end
local owner, ended = redis.call('HGET', clients, id), expiry(id)
if lost then begin() end
save()
local mark = record(id)
redis.call('HDEL', clients, id)
redis.call('ZADD', ids, score(math.max(now, floor, mark)), id)
return {int(raw), owner or '', int(ended), int(mark)}
