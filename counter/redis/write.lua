-- write replaces a record, if it and the server are still those that were read.
--
-- KEYS: the hash of the sequences. ARGV: the history, how many replicas must have every grant, the record's
-- field, its old text (nothing = it must be absent), its new text, and a new text of "changes", or nothing.
-- The field may be "replicas" too.
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication')
local here = (info:match('run_id:(%x+)') or '') .. ':' .. (info:match('master_replid:(%x+)') or '')
if info:match('role:(%a+)') ~= 'master' then return {err = 'KATSU_NOTMASTER ' .. (info:match('role:(%a+)') or 'unknown')} end
if here ~= ARGV[1] or (redis.call('HGET', KEYS[1], ARGV[3]) or '') ~= ARGV[4] then return 0 end
if ARGV[3] ~= 'replicas' and (redis.call('HGET', KEYS[1], 'replicas') or ARGV[2]) ~= ARGV[2] then return 0 end

local needed, online, listed = tonumber(ARGV[2]), 0, {}
for ip, port in info:gmatch('slave%d+:ip=([^,]*),port=(%d+),state=online') do
  local replica = ip .. ' ' .. port
  if not listed[replica] then online, listed[replica] = online + 1, true end
end
if needed > 0 and online > needed then return {err = 'KATSU_REPLICAS ' .. online .. ' ' .. needed} end

redis.call('HSETNX', KEYS[1], 'history', here)
if ARGV[3] ~= 'replicas' then redis.call('HSETNX', KEYS[1], 'replicas', ARGV[2]) end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[5])
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'changes', ARGV[6]) end
return 1
