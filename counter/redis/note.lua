-- note records what a daemon has learnt, and when. It begins no namespace.
--
-- KEYS: the hash of the sequences. ARGV: the daemon's field, and its text.
if not redis.call('HGET', KEYS[1], 'history') then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000)) .. ' ' .. ARGV[2])
return 1
