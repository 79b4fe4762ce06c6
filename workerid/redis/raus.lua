-- One lock of raus's: take it, keep it, or let it end.
--
-- KEYS: lock    ARGV: verb value pool expiry channel worker. value begins with pool, as the values of all who go by this pool do. The first
-- value of a lock ends with ?: nobody may have heard that it was had, so whoever finds it must not take it for had since then.
local verb, value, pool, expiry = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local holder = redis.call('GET', KEYS[1])
if holder and holder:sub(1, #pool) ~= pool then return {'theirs', holder} end
local own = holder == value or holder == value .. '?'
if verb == 'take' then
  redis.call('SET', KEYS[1], value .. '?', 'PX', expiry)
elseif verb == 'keep' and (own or not holder) then
  redis.call('SET', KEYS[1], value, 'PX', expiry)
elseif own or verb ~= 'end' then
  redis.call('PEXPIRE', KEYS[1], expiry) -- if there is one. Another of this pool's may stay: who has the worker id is for the pool to say
end
if verb == 'take' or own and verb ~= 'end' then redis.call('PUBLISH', ARGV[5], value .. ':' .. ARGV[6]) end -- newcomers listen
return {holder and (verb ~= 'take' or holder:sub(-1) ~= '?') and 'ours' or 'absent', holder or ''}
