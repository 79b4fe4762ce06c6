-- clock accepts the server's clock after it was ahead, and set back. As after a loss, nobody gets a worker id for a lease's length.
-- Marks stay: what was granted for that future is not granted again.
--
-- ARGV: the operator's now and skew, which are not among the common ones, since the clock has gone back; and what lease he thinks there is.
local own, allowed = tonumber(ARGV[11]), tonumber(ARGV[12])
if math.abs(raw - own) > allowed then return {err = 'KATSU_SKEW ' .. int(raw - own)} end
if not number(m[5]) then lmax = math.max(lmax, tonumber(ARGV[13])) end
-- There is nothing to accept where daemons are not refused, nor the floor is further off than any loss puts it.
if seen - raw <= allowed and floor - raw <= 10 * lmax + eps then return {err = 'KATSU_STEADY'} end
now, floor, lost = raw, 0, true
begin()
save()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', ids, '(' .. score(floor), '+inf')) do
  local mark = record(id)
  local ends = math.max(mark, floor)
  if expiry(id) > ends then redis.call('ZADD', ids, score(ends), id) end
end
return {int(raw), int(seen), int(floor)}
