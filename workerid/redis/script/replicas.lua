-- replicas sets how many replicas must have every grant, or lets the daemons' flags apply.
--
-- ARGV: the number, or nothing
if ARGV[11] == '' then
  redis.call('HDEL', meta, 'replicas')
else
  redis.call('HSET', meta, 'replicas', ARGV[11])
end
return {int(raw)}
