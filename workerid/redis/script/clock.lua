-- clock accepts the server's clock after it was ahead and was set back. As after a loss, nobody gets a
-- worker id for one lease. High-water marks stay: what was granted for that future is not granted again.
--
-- ARGV: the operator's now and skew, which are not among the common arguments because the clock has gone
-- back; and the lease to assume if the pool's cannot be read.
local own, allowed = tonumber(ARGV[11]), tonumber(ARGV[12])
if math.abs(raw - own) > allowed then return {err = 'KATSU_SKEW ' .. int(raw - own)} end
if not number(m[5]) then lmax = math.max(lmax, tonumber(ARGV[13])) end
-- There is nothing to accept if daemons are not refused and the floor is no further off than a loss puts it.
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
