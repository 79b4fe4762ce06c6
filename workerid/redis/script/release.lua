-- release gives a worker id back. Its generator is sealed and issued up to last. Only a release may lower
-- a high-water mark, and not below the start of the holder's window − 1.
--
-- ARGV: worker owner hi last, and then the tokens that the record may have.
local id, owner, held, last = member(tonumber(ARGV[11])), ARGV[12], tonumber(ARGV[13]), tonumber(ARGV[14])
local mark, by, start = record(id)
local mine, asked = redis.call('HGET', clients, id) == owner, false
for k = 15, #ARGV do asked = asked or ARGV[k] == by end
-- The record was rolled back: ids may have been issued above the mark, and only a floor keeps others from them.
if mark < held and (mine or mark < last and floor < last and last <= held) then lost = true end

if lost then begin() end
save()
if not (mine and asked and start - 1 <= last and last <= mark) then return {err = 'KATSU_LOST'} end
redis.call('HDEL', clients, id)
redis.call('HSET', marks, id, int(last) .. ' - ' .. int(last + 1))
redis.call('ZADD', ids, score(math.max(now, floor)), id)
return {int(raw), history, needed, online}
