-- clock accepts the server's clock after it was ahead, and set back. As after a loss, nobody gets a worker id for a lease's length.
-- Marks stay: what was granted for that future is not granted again.
now, floor, lost = raw, 0, true
begin()
save()
for _, id in ipairs(redis.call('ZRANGEBYSCORE', ids, '(' .. score(floor), '+inf')) do
  local mark = record(id)
  local ends = math.max(mark, floor)
  if expiry(id) > ends then redis.call('ZADD', ids, score(ends), id) end
end
return {int(raw), int(seen), int(floor)}
