-- extend lengthens the windows of all lanes of a daemon, each contiguously.
--
-- ARGV, for each lane: worker owner lo hi history n, and then the n tokens that its record may have: that
-- of the last answered request and those of all requests since.
local lanes, k = {}, 11
while k <= #ARGV do
  local l = {id = member(tonumber(ARGV[k])), owner = ARGV[k + 1], lo = tonumber(ARGV[k + 2]), hi = tonumber(ARGV[k + 3]), history = ARGV[k + 4]}
  l.mark, l.by, l.start = record(l.id)
  l.mine = redis.call('HGET', clients, l.id) == l.owner
  for t = k + 6, k + 5 + ARGV[k + 5] do l.asked = l.asked or ARGV[t] == l.by end
  k = k + 6 + ARGV[k + 5]
  lanes[#lanes + 1] = l
  -- The record is older than what was acknowledged to the holder: somebody rolled it back, whoever has it
  -- now. Or the holder released it after use, and this call is late.
  local released = l.by == '-' and l.mark >= l.lo
  if l.mark < l.hi and (l.mine or l.history == history and not released) then lost = true end
end

if lost then begin() end
for _, l in ipairs(lanes) do
  if l.history ~= history and l.history ~= '' and l.hi > floor and l.hi <= now + 10 * lmax then floor = l.hi end
end
save()
count('extend_ttl_count', #lanes)

local reply = {int(raw), history, needed, online}
for _, l in ipairs(lanes) do
  local mine, ok = l.mine and l.asked
  if l.history == history or l.history == '' then
    ok = mine
  else
    -- A window that reaches beyond now + eps proves that nobody else can have been granted the worker id,
    -- in any history.
    ok = l.hi > now + eps and (mine or l.mark <= l.hi)
  end
  if ok then
    if expiry(l.id) < now then count('extend_ttl_expire_warning') end
    local hi = math.max(l.mark, l.hi, now + lease)
    grant(l.id, l.owner, hi, mine and l.start or l.lo)
    count('extend_ttl_success')
    reply[#reply + 1] = {'OK', int(l.hi + 1), int(hi)}
  else
    count('extend_ttl_ownership_error')
    reply[#reply + 1] = {l.mine and not l.asked and l.mark >= l.hi and 'CLONED' or 'LOST'}
  end
end
return reply
