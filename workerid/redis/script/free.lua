-- free ends a lease that nobody gives back. Its mark stays, so whoever still issues from its window does no harm. And nobody gets the worker
-- id before that is over: else a holder who comes back after a loss would find nothing against having its window lengthened.
--
-- It writes down no present: an operator's clock has not been compared with others for long. Whether something was lost is for daemons to see.
--
-- ARGV: worker
local id = member(tonumber(ARGV[11]))
if redis.call('ZSCORE', ids, id) == false then return {err = 'KATSU_NOINIT absent'} end
local owner, ended, mark = redis.call('HGET', clients, id), expiry(id), record(id)
redis.call('HDEL', clients, id)
redis.call('ZADD', ids, score(math.max(floor, mark, (yaraus or mark < 0) and now or 0)), id) -- what a yaraus client has used, no mark tells
return {int(raw), owner or '', int(ended), int(mark)}
