-- read says who the server is, and what is recorded. It writes nothing.
--
-- KEYS: the hash of the sequences. ARGV: fields, or nothing for all of them.
local info = redis.call('INFO', 'server') .. redis.call('INFO', 'replication') .. redis.call('INFO', 'persistence')
local run, replid, role = info:match('run_id:(%x+)'), info:match('master_replid:(%x+)'), info:match('role:(%a+)')
if role ~= 'master' or not run or not replid then return {err = 'KATSU_NOTMASTER ' .. (role or 'unknown')} end

-- A replica that reconnects is listed twice for a while.
local online, listed = 0, {}
for ip, port in info:gmatch('slave%d+:ip=([^,]*),port=(%d+),state=online') do
  local replica = ip .. ' ' .. port
  if not listed[replica] then online, listed[replica] = online + 1, true end
end
local time = redis.call('TIME')
local values
if #ARGV > 0 then values = redis.call('HMGET', KEYS[1], unpack(ARGV)) else values = redis.call('HGETALL', KEYS[1]) end
return {
  string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)), run .. ':' .. replid, online, tonumber(info:match('aof_enabled:(%d)')) or 0, values,
  redis.call('HGET', KEYS[1], 'replicas') or '',
}
