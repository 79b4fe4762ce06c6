-- Every script starts with this part. It reads the arguments and the server's state, and checks whether
-- the script may do anything. Nothing is written before all checks have passed. Times are Unix
-- milliseconds.
--
-- KEYS: ids clients stats hw meta
-- ARGV: fingerprint lease lmax skew eps now replicas min max token, and then the script's own. An empty
--       fingerprint, now or replicas skips its check, and an empty range means the pool's own: operators
--       have none of these.
local ids, clients, stats, marks, meta = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local fingerprint, token = ARGV[1], ARGV[10]
local lease, skew = tonumber(ARGV[2]), tonumber(ARGV[4])
local daemon, replicas = tonumber(ARGV[6]), tonumber(ARGV[7])

local function int(n) return string.format('%.0f', n) end

-- Anybody may have written what is read here. All numbers, times included, have at most 15 digits.
local function number(s) return s and #s <= 15 and s:find('^%d+$') and tonumber(s) or nil end

-- A worker id's member starts with a letter for the number of digits, so that members of equal score sort
-- as numbers.
local function member(n)
  local s = int(n)
  return string.char(64 + #s) .. s
end

-- Scores are Unix seconds.
local function score(ms) return string.format('%.3f', ms / 1000) end
local function millis(s) return math.floor(tonumber(s) * 1000 + 0.5) end
local function expiry(id) return millis(redis.call('ZSCORE', ids, id) or '0') end

-- A worker id's record: its high-water mark, the token of the request that wrote it, and the start of the
-- holder's window.
local function record(id)
  local mark, by, lo = (redis.call('HGET', marks, id) or ''):match('^(%d+) (%S+) (%d+)$')
  mark, lo = number(mark), number(lo)
  if not (mark and lo) then return -1, '-', 0 end
  return mark, by, lo
end

local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local run, replid, role = info:match('run_id:(%x+)'), info:match('master_replid:(%x+)'), info:match('role:(%a+)')
if role ~= 'master' or not run or not replid then return {err = 'KATSU_NOTMASTER ' .. (role or 'unknown')} end

local time = redis.call('TIME')
local raw = time[1] * 1000 + math.floor(time[2] / 1000)
if daemon and math.abs(raw - daemon) > skew then return {err = 'KATSU_SKEW ' .. int(raw - daemon)} end

local m = redis.call('HMGET', meta, 'hist', 'seen', 'floor', 'fingerprint', 'lmax', 'replicas', 'yaraus', 'eps', 'jump')
local history, seen, oldFloor = m[1] or '', number(m[2]) or 0, number(m[3]) or 0
if seen - raw > skew then return {err = 'KATSU_CLOCK ' .. int(seen - raw)} end
if fingerprint ~= '' and m[4] and m[4] ~= fingerprint then return {err = 'KATSU_FOREIGN ' .. m[4]} end

-- Replicas that could be promoted. A replica that reconnects is listed twice for a while.
local needed, online, listed = number(m[6]) or replicas or 0, 0, {}
for ip, port in info:gmatch('slave%d+:ip=([^,]*),port=(%d+),state=online') do
  local replica = ip .. ' ' .. port
  if not listed[replica] then online, listed[replica] = online + 1, true end
end
if replicas and needed > 0 and online > needed then return {err = 'KATSU_REPLICAS ' .. online .. ' ' .. needed} end

local range = redis.call('HMGET', stats, 'min', 'max')
local min, max = tonumber(ARGV[8]) or number(range[1]) or 1, tonumber(ARGV[9]) or number(range[2]) or 0

-- While yaraus clients use the pool: their expiries are only approximate, and their leases last half an hour.
local yaraus = m[7] == '1'
local slack = yaraus and 5000 or 0
-- The largest so far. An operator, who has no lease (0), uses the pool's eps, or his flags' if that is unknown.
local longest, eps = math.max(lease, number(m[5]) or 0), lease == 0 and number(m[8]) or math.max(tonumber(ARGV[5]), number(m[8]) or 0)
local lmax = math.max(longest, tonumber(ARGV[3]), yaraus and 1800000 or 0)

-- The present never goes back, and no high-water mark may be forgotten. A history is a period in one
-- server's life in which none was. A script that finds that one was forgotten sets lost. Then a new
-- history begins, and until its floor has passed only holders get their worker ids.
local now, floor = math.max(raw, seen), oldFloor
local here = run .. ':' .. replid .. ':'
local initialised = redis.call('EXISTS', ids) == 1
local lost = history:sub(1, #here) ~= here or not initialised
for _, k in ipairs({2, 3, 5, 8}) do lost = lost or (m[k] and not number(m[k])) end -- an unreadable time

local function begin()
  history = here .. token
  floor = math.max(floor, now + lmax + eps)
end

-- Since the last call the clock went forward by more than any lease that was held then. Either all
-- holders are gone, or the clock is wrong, perhaps for a moment, and so is the newcomer's clock. What the
-- newcomer would write cannot be taken back and would stop all holders. So newcomers wait until the jump
-- has lasted for a lease, or 50 s. A holder's extension ends the wait, because its clock was compared
-- with others for a long time.
local function jumped()
  if not number(m[2]) or raw - seen <= lmax + eps then return end
  local held = false
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', ids, '(' .. score(seen), '+inf')) do
    held = held or redis.call('HEXISTS', clients, id) == 1
  end
  local since, hold = number(m[9]), math.min(50000, lmax)
  if not held or since and raw - since >= hold then return end
  if not since or raw < since then
    since = raw
    redis.call('HSET', meta, 'jump', int(since))
  end
  return {err = 'KATSU_JUMP ' .. int(raw - seen) .. ' ' .. int(since + hold - raw)}
end

-- save writes the history. If the floor has risen, every worker id waits for it; holders that come back in
-- time keep theirs. A used worker id without a readable record is a sign of loss, so all of them get one.
local function save()
  redis.call('HSET', meta, 'hist', history, 'seen', int(now), 'floor', int(floor), 'lmax', int(longest))
  if m[9] then redis.call('HDEL', meta, 'jump') end
  if fingerprint ~= '' then redis.call('HSET', meta, 'fingerprint', fingerprint, 'eps', int(eps)) end
  if not lost and floor == oldFloor then return end
  for n = min, max do
    local id = member(n)
    if expiry(id) < floor then redis.call('ZADD', ids, score(floor), id) end
    if record(id) < 0 then redis.call('HSET', marks, id, '0 - 0') end
  end
  redis.call('HSET', stats, 'min', int(min), 'max', int(max))
end

local function grant(id, owner, hi, lo)
  redis.call('HSET', clients, id, owner)
  redis.call('HSET', marks, id, int(hi) .. ' ' .. token .. ' ' .. int(lo))
  if hi > expiry(id) then redis.call('ZADD', ids, score(hi), id) end
end

-- A counter that is not a number is left alone: nothing depends on it.
local function count(counter, n) redis.pcall('HINCRBY', stats, counter, n or 1) end
