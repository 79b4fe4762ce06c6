-- free ends a lease for its owner. The high-water mark stays, so an owner that still issues from its
-- window does no harm. Nobody gets the worker id before that window is over: otherwise a holder that
-- comes back after a loss could have its window lengthened.
--
-- It does not write the present, because an operator's clock was not compared with others for long.
-- Daemons will notice if something was lost.
--
-- ARGV: worker
local id = member(tonumber(ARGV[11]))
if redis.call('ZSCORE', ids, id) == false then return {err = 'KATSU_NOINIT absent'} end
local owner, ended, mark = redis.call('HGET', clients, id), expiry(id), record(id)
redis.call('HDEL', clients, id)
redis.call('ZADD', ids, score(math.max(floor, mark, (yaraus or mark < 0) and now or 0)), id) -- no mark says what a yaraus client has used
return {int(raw), owner or '', int(ended), int(mark)}
