package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// before makes the pool hold what the last argument says, and lets a script see another server and another clock than
// it runs on: those of the two arguments before.
const before = `
local pool = cjson.decode(table.remove(ARGV))
redis.call('DEL', unpack(KEYS))
for i = 1, 5 do
  for name, value in pairs(pool[i] ~= cjson.null and pool[i] or {}) do
    if i == 1 then redis.call('ZADD', KEYS[i], value, name) else redis.call('HSET', KEYS[i], name, value) end
  end
end
local real = redis
local redis = (function()
  local now, info = tonumber(table.remove(ARGV)), table.remove(ARGV)
  local function call(command, ...)
    if command == 'TIME' then return {string.format('%.0f', math.floor(now / 1000)), string.format('%.0f', now % 1000 * 1000)} end
    if command == 'INFO' then return ({server = '', replication = info})[...] end
    return real.call(command, ...)
  end
  return setmetatable({call = call}, {__index = real})
end)()
local reply = (function()
`

// after returns what the script does, and what the pool holds then.
const after = `
end)()
local function pairsOf(list)
  local all = {}
  for i = 1, #list, 2 do all[list[i]] = list[i + 1] end
  return all
end
local pool = {pairsOf(real.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'))}
for i = 2, 5 do pool[i] = pairsOf(real.call('HGETALL', KEYS[i])) end
return {reply, cjson.encode(pool)}
`

// A Pool is the keys of one pool in a Redis.
type Pool struct {
	// Edit changes the text of a script before it runs; nil = it does not.
	Edit func(text string) string

	db     *goredis.Client
	keys   []string
	loaded map[string]string // digests of the scripts that Redis has, by name
	known  map[string][]any  // what Redis has answered to the same before
}

// most is how many answers are remembered.
const most = 20_000

// New returns the Pool of a namespace, which nothing else may use.
func New(db *goredis.Client, namespace string) *Pool {
	return &Pool{db: db, keys: script.Keys(namespace, false), loaded: map[string]string{},
		known: map[string][]any{}}
}

// Carry carries out a script on a server's Keys, which change, at now, Unix ms. The result is what the package of the
// scripts reads from the reply, or nil after an error.
func (p *Pool) Carry(s *Server, c script.Call, now int64) (any, error) {
	name, texts := c.Call()
	keys, err := json.Marshal(s.Keys)
	if err != nil {
		return nil, err
	}
	texts = append(texts, s.info(), strconv.FormatInt(now, 10), string(keys))
	what := name + " " + strings.Join(texts, " ")
	both, known := p.known[what]
	if !known {
		if both, err = p.run(name, texts); err != nil {
			return nil, err
		}
		if len(p.known) > most {
			clear(p.known)
		}
		p.known[what] = both
	}
	s.Keys = Keys{}
	if err := json.Unmarshal([]byte(both[1].(string)), &s.Keys); err != nil {
		return nil, err
	}
	return answer(c, both[0])
}

// run runs a script in Redis.
func (p *Pool) run(name string, texts []string) ([]any, error) {
	var args []any
	for _, a := range texts {
		args = append(args, a)
	}
	digest, err := p.load(name)
	if err != nil {
		return nil, err
	}
	return p.db.EvalSha(context.Background(), digest, p.keys, args...).Slice()
}

// load gives Redis a script, once.
func (p *Pool) load(name string) (digest string, err error) {
	if p.loaded[name] == "" {
		text := script.Text(name)
		if p.Edit != nil {
			text = p.Edit(text)
		}
		p.loaded[name], err = p.db.ScriptLoad(context.Background(), before+text+after).Result()
	}
	return p.loaded[name], err
}

// info is what INFO says of a server.
func (s *Server) info() string {
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
	return info
}

// answer reads what a script returned.
func answer(c script.Call, reply any) (any, error) {
	if err, is := reply.(error); is {
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
	}
	return nil, errors.ErrUnsupported
}

func some[T any](v T, err error) (any, error) { return v, err }
