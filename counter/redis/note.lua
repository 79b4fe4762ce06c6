-- note records what a daemon has learnt. It begins no namespace.
--
-- KEYS: the hash of the sequences. ARGV: the daemon's field, and its text.
if not redis.call('HGET', KEYS[1], 'history') then return 0 end
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
