-- One lock of raus's: take it, keep it, or let it end.
--
-- KEYS: lock    ARGV: verb value pool expiry channel worker. value starts with pool, as do the values of
-- all daemons of this pool. The first value of a lock ends with ?: the answer may have been lost, so a
-- later call that finds it must not assume that we have had the lock since then.
local verb, value, pool, expiry = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local holder = redis.call('GET', KEYS[1])
if holder and holder:sub(1, #pool) ~= pool then return {'theirs', holder} end
local own = holder == value or holder == value .. '?'
if verb == 'take' then
  redis.call('SET', KEYS[1], value .. '?', 'PX', expiry)
elseif verb == 'keep' and (own or not holder) then
  redis.call('SET', KEYS[1], value, 'PX', expiry)
elseif own or verb ~= 'end' then
  redis.call('PEXPIRE', KEYS[1], expiry) -- if there is one. A lock of another daemon of this pool may stay: the pool says who has the worker id
end
if verb == 'take' or own and verb ~= 'end' then redis.call('PUBLISH', ARGV[5], value .. ':' .. ARGV[6]) end -- newcomers listen
return {holder and (verb ~= 'take' or holder:sub(-1) ~= '?') and 'ours' or 'absent', holder or ''}
