-- One lock of raus's: take it, keep it, or let it end.
--
-- KEYS: lock    ARGV: verb value pool expiry. value begins with pool, as the values of all who go by this pool do.
local verb, value, pool, expiry = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local holder = redis.call('GET', KEYS[1])
if holder and holder:sub(1, #pool) ~= pool then return {'theirs', holder} end
if verb == 'take' or verb == 'keep' and (not holder or holder == value) then
  redis.call('SET', KEYS[1], value, 'PX', expiry)
elseif holder == value or verb ~= 'end' then
  redis.call('PEXPIRE', KEYS[1], expiry) -- if there is one. Another of this pool's may stay: who has the worker id is for the pool to say
end
return {holder and 'ours' or 'absent', holder or ''}
