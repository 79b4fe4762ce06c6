-- acquire grants the worker id whose last lease ended first, small numbers first.
--
-- ARGV: owner from to init new, and then the tokens (request ids) of this owner's unanswered acquisitions.
local owner, from, to = ARGV[11], tonumber(ARGV[12]), tonumber(ARGV[13])
local init, new = ARGV[14] == '1', ARGV[15] == '1'
local ours = m[1] or redis.call('EXISTS', marks) == 1
if not init and not (initialised and ours) then
  return {err = 'KATSU_NOINIT ' .. (initialised and 'yaraus' or 'absent')}
end
local wrong = jumped()
if wrong then return wrong end
if new then count('client_id_count') end
count('get_id_count')

-- If this owner was granted a worker id and did not get the answer, it is granted again. A window that
-- reaches beyond now + eps proves that nobody else can have been granted the worker id since, in any
-- history.
local id, lo, hi
local known = {}
for k = 16, #ARGV do known[ARGV[k]] = true end
if next(known) then
  local all = redis.call('HGETALL', clients)
  for k = 1, #all, 2 do
    local n, mark, by, start = tonumber(all[k]:sub(2)), record(all[k])
    if all[k + 1] == owner and known[by] and mark > now + eps and n >= from and n <= to and (not id or all[k] < id) then
      id, lo, hi = all[k], start, mark
    end
  end
end

-- Otherwise a free one: the first whose window starts by now, or else the one whose window starts first.
local offset, more = 0, not id and not lost
while more do
  local page = redis.call('ZRANGEBYSCORE', ids, '-inf', '(' .. score(now), 'WITHSCORES', 'LIMIT', offset, 100)
  offset, more = offset + 100, #page == 200
  for k = 1, #page, 2 do
    local n, ended, mark = tonumber(page[k]:sub(2)), millis(page[k + 1]), record(page[k])
    if n >= from and n <= to then
      if ended > 0 and mark < 0 and not yaraus then
        lost, id, more = true, nil, false
        break
      end
      local start = math.max(mark, ended > 0 and ended + slack or 0, floor) + 1
      if not id or start < lo then id, lo, hi = page[k], start, start - 1 end
      if lo <= now then
        more = false
        break
      end
    end
  end
end

if lost then begin() end
save()
if not ours then redis.call('HSET', meta, 'yaraus', initialised and '1' or '0') end
if not id then
  count('get_id_no_available_id')
  return {err = 'KATSU_NOID ' .. int(math.max(floor - now, 0))}
end
hi = math.max(hi, lo - 1, now + lease)
grant(id, owner, hi, lo)
count('get_id_success')
return {int(raw), history, needed, online, id, int(lo), int(hi)}
