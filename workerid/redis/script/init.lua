-- init makes a pool, adopts one of yaraus's, changes a pool's settings, or ends the use by yaraus clients.
--
-- ARGV: fingerprint (the common one is empty) and how:
--   new      the pool was never used, or all its daemons have stopped and given everything back
--   wait     it may have been used: nobody gets a worker id until every lease that may have been forgotten is over
--   replace  new settings, after all daemons have stopped; waits too
--   migrated no yaraus client is left
local how, ours = ARGV[12], m[1] or redis.call('EXISTS', marks) == 1
if m[4] and m[4] ~= ARGV[11] and how ~= 'replace' then return {err = 'KATSU_FOREIGN ' .. m[4]} end
if initialised and ours and (how == 'new' or how == 'wait') then return {int(raw), 'present'} end

local wrong = jumped()
if wrong then return wrong end

if how == 'migrated' then
  if not initialised then return {err = 'KATSU_NOINIT absent'} end
  for n = min, max do
    local ended = expiry(member(n))
    if ended > 0 then redis.call('HSETNX', marks, member(n), int(ended + slack) .. ' - ' .. int(ended + slack + 1)) end
  end
  redis.call('HSET', meta, 'yaraus', '0')
  return {int(raw), yaraus and 'migrated' or 'present'}
end

if how == 'replace' then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', ids, score(now), '+inf')) do
    if redis.call('HEXISTS', clients, id) == 1 then return {err = 'KATSU_HELD ' .. id:sub(2)} end
  end
  for _, id in ipairs(redis.call('ZRANGE', ids, 0, -1)) do
    local n = tonumber(id:sub(2))
    if n < min or n > max then redis.call('ZREM', ids, id) end
  end
end

fingerprint, lost = ARGV[11], how ~= 'new' or (ours and true or false)
if lost then
  begin()
  if how == 'replace' then longest, eps = lease, tonumber(ARGV[5]) end -- larger ones are over when the floor has passed
else
  history, floor = here .. token, now
  for n = min, max do redis.call('ZADD', ids, 'NX', '0', member(n)) end
  redis.call('HSET', stats, 'min', int(min), 'max', int(max))
  oldFloor = floor
end
save()
redis.call('HSET', meta, 'yaraus', initialised and not ours and '1' or '0')
return {int(raw), lost and 'waiting' or initialised and 'adopted' or 'made'}
