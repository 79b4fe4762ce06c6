package scripted

import (
	"context"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// disguise lets the scripts see another server and another clock than they run on: their last
// arguments.
const disguise = `
local redis = (function(real)
  local now, info = tonumber(table.remove(ARGV)), table.remove(ARGV)
  local function call(command, ...)
    if command == 'TIME' then return {string.format('%.0f', math.floor(now / 1000)), string.format('%.0f', now % 1000 * 1000)} end
    if command == 'INFO' then return ({server = '', replication = info})[...] end
    return real.call(command, ...)
  end
  return setmetatable({call = call}, {__index = real})
end)(redis)
`

// A Pool is the keys of one pool in a Redis.
type Pool struct {
	db   *goredis.Client
	keys []string
}

// New returns the Pool of a namespace, which nothing else may use.
func New(db *goredis.Client, namespace string) *Pool {
	return &Pool{db, script.Keys(namespace, false)}
}

// Call carries out a script as on a server, whose Keys it does not look at, at now, Unix ms. The result is that of the
// server's method for the call, or nil after an error.
func (p *Pool) Call(s *redismodel.Server, c script.Call, now int64) (any, error) {
	return answer(c, p.call(p.db, s, c, now))
}

// Carry carries out a script on a server's Keys, which change, in one round trip.
func (p *Pool) Carry(s *redismodel.Server, c script.Call, now int64) (any, error) {
	all := p.db.Pipeline()
	p.write(all, s.Keys)
	reply, keys := p.call(all, s, c, now), p.read(all)
	_, _ = all.Exec(context.Background()) // each command has its error
	var err error
	if s.Keys, err = keys(); err != nil {
		return nil, err
	}
	return answer(c, reply)
}

func (p *Pool) call(to goredis.Cmdable, s *redismodel.Server, c script.Call, now int64) *goredis.Cmd {
	role := "master"
	if s.Replica {
		role = "slave"
	}
	info := fmt.Sprintf("run_id:%s\r\nrole:%s\r\nmaster_replid:%s\r\n", s.Run, role, s.Replid)
	for i := range s.Online {
		info += fmt.Sprintf("slave%d:ip=::1,port=%d,state=online,offset=1,lag=0\r\n", i, 7000+i)
	}
	info += "slave8:ip=::1,port=8000,state=wait_bgsave,offset=1,lag=0\r\n"
	if s.Online > 0 {
		info += "slave9:ip=::1,port=7000,state=online,offset=0,lag=60\r\n" // its connection before this one
	}
	name, texts := c.Call()
	var args []any
	for _, a := range append(texts, info, strconv.FormatInt(now, 10)) {
		args = append(args, a)
	}
	return to.Eval(context.Background(), disguise+script.Text(name), p.keys, args...)
}

// answer reads what a script returned.
func answer(c script.Call, from *goredis.Cmd) (any, error) {
	reply, err := from.Result()
	if err != nil {
		if r, ok := script.ParseRefusal(err.Error()); ok {
			err = r
		}
		return nil, err
	}
	switch c := c.(type) {
	case script.Acquire:
		return some(script.ReadAcquired(reply))
	case script.Extend:
		return some(script.ReadExtended(c, reply))
	case script.Release:
		return some(script.ReadReleased(reply))
	case script.Init:
		return some(script.ReadInit(reply))
	case script.Free:
		return some(script.ReadFreed(reply))
	case script.ResetClock:
		return some(script.ReadClockReset(reply))
	}
	return nil, nil
}

func some[T any](v T, err error) (any, error) { return v, err }

// Read returns what Redis keeps.
func (p *Pool) Read() (redismodel.Keys, error) {
	all := p.db.Pipeline()
	keys := p.read(all)
	_, _ = all.Exec(context.Background()) // each command has its error
	return keys()
}

// read asks for what Redis keeps, and returns what reads the answers.
func (p *Pool) read(all goredis.Pipeliner) func() (redismodel.Keys, error) {
	ctx := context.Background()
	ids := all.ZRangeWithScores(ctx, p.keys[0], 0, -1)
	var hashes [4]*goredis.MapStringStringCmd
	for i := range hashes {
		hashes[i] = all.HGetAll(ctx, p.keys[i+1])
	}
	return func() (redismodel.Keys, error) {
		for _, h := range hashes {
			if err := h.Err(); err != nil {
				return redismodel.Keys{}, err
			}
		}
		return keysOf(ids.Val(), hashes)
	}
}

func keysOf(ids []goredis.Z, hashes [4]*goredis.MapStringStringCmd) (k redismodel.Keys, err error) {
	k = redismodel.Keys{IDs: map[uint64]float64{}, Clients: map[uint64]string{}, Stats: map[string]int64{},
		HighWater: map[uint64]redismodel.Record{}}
	note := func(e error) {
		if err == nil {
			err = e
		}
	}
	number := func(s string) (n int64) {
		if s != "" {
			var e error
			n, e = strconv.ParseInt(s, 10, 64)
			note(e)
		}
		return n
	}
	worker := func(m string) uint64 {
		w, e := script.ParseMember(m)
		note(e)
		return w
	}
	for _, z := range ids {
		k.IDs[worker(z.Member.(string))] = z.Score
	}
	for m, owner := range hashes[0].Val() {
		k.Clients[worker(m)] = owner
	}
	for name, n := range hashes[1].Val() {
		k.Stats[name] = number(n)
	}
	for m, s := range hashes[2].Val() {
		mark, requestID, lo, e := script.ParseRecord(s)
		note(e)
		k.HighWater[worker(m)] = redismodel.Record{HighWater: mark, RequestID: requestID, Lo: lo}
	}
	m := hashes[3].Val()
	k.Meta = redismodel.Meta{
		Incarnation: m["hist"], Seen: number(m["seen"]), Floor: number(m["floor"]), Lmax: number(m["lmax"]),
		Eps: number(m["eps"]), Fingerprint: m["fingerprint"],
		Replicas: m["replicas"], Yaraus: m["yaraus"] == "1", Jump: number(m["jump"]),
	}
	return k, err
}

// Write makes Redis keep something else.
func (p *Pool) Write(k redismodel.Keys) error {
	all := p.db.Pipeline()
	p.write(all, k)
	_, err := all.Exec(context.Background())
	return err
}

func (p *Pool) write(all goredis.Pipeliner, k redismodel.Keys) {
	ctx := context.Background()
	all.Del(ctx, p.keys...)
	for w, s := range k.IDs {
		all.Do(ctx, "ZADD", p.keys[0], strconv.FormatFloat(s, 'g', 17, 64), script.Member(w))
	}
	for w, owner := range k.Clients {
		all.HSet(ctx, p.keys[1], script.Member(w), owner)
	}
	for name, n := range k.Stats {
		all.HSet(ctx, p.keys[2], name, n)
	}
	for w, r := range k.HighWater {
		all.HSet(ctx, p.keys[3], script.Member(w), fmt.Sprintf("%d %s %d", r.HighWater, r.RequestID, r.Lo))
	}
	if m := k.Meta; m != (redismodel.Meta{}) {
		if m.Incarnation != "" {
			all.HSet(ctx, p.keys[4], "hist", m.Incarnation)
		}
		all.HSet(ctx, p.keys[4], "seen", m.Seen, "floor", m.Floor, "lmax", m.Lmax, "eps", m.Eps, "yaraus",
			map[bool]string{true: "1", false: "0"}[m.Yaraus])
		if m.Fingerprint != "" {
			all.HSet(ctx, p.keys[4], "fingerprint", m.Fingerprint)
		}
		if m.Jump != 0 {
			all.HSet(ctx, p.keys[4], "jump", m.Jump)
		}
		if m.Replicas != "" {
			all.HSet(ctx, p.keys[4], "replicas", m.Replicas)
		}
	}
}
