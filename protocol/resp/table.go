package resp

import (
	_ "embed" // commands.txt
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// An entry is a command, and what COMMAND says about it; see commands.txt.
type entry struct {
	name    string // in lower case; of a subcommand: container|name
	refused bool   // it would change something
	arity   int
	kind    protocol.Counter
	open    bool // allowed before the client has authenticated
	slow    bool // takes far longer than a GET, even where the reply is short
	flags   string
	// Its keys are arguments first, first+step, ..., last; negative: counted from the end; 0 = none.
	first, last, step int
	group             string
	summary           string
	sub               []*entry
}

// fits reports whether a command may have n arguments, the name included.
func (e *entry) fits(n int) bool { return n == e.arity || e.arity < 0 && n >= -e.arity }

//go:embed commands.txt
var answered string

// written lists Redis's other commands that write, as commands.txt does; their keys are at 1:1:1 unless it says
// otherwise. They are refused.
const written = `
append:3 bitfield:-2 bitop:-4:2:-1:1 blmove:6:1:2:1 blmpop:-5:0:0:0 blpop:-3:1:-2:1
brpop:-3:1:-2:1 brpoplpush:4:1:2:1 bzmpop:-5:0:0:0 bzpopmax:-3:1:-2:1 bzpopmin:-3:1:-2:1
copy:-3:1:2:1 decr:2 decrby:3 del:-2:1:-1:1 expire:-3 expireat:-3 flushall:-1:0:0:0
flushdb:-1:0:0:0 geoadd:-5 georadius:-6 georadiusbymember:-5 geosearchstore:-8:1:2:1 getdel:2
getex:-2 getset:3 hdel:-3 hincrby:4 hincrbyfloat:4 hmset:-4 hset:-4 hsetnx:4 incrbyfloat:3
linsert:5 lmove:5:1:2:1 lmpop:-4:0:0:0 lpop:-2 lpush:-3 lpushx:-3 lrem:4 lset:4 ltrim:4
migrate:-6:3:3:1 move:3 mset:-3:1:-1:2 msetnx:-3:1:-1:2 persist:2 pexpire:-3 pexpireat:-3
pfadd:-2 pfdebug:3:2:2:1 pfmerge:-2:1:-1:1 psetex:4 rename:3:1:2:1 renamenx:3:1:2:1 restore:-4
restore-asking:-4 rpop:-2 rpoplpush:3:1:2:1 rpush:-3 rpushx:-3 sadd:-3 sdiffstore:-3:1:-1:1
set:-3 setbit:4 setex:4 setnx:3 setrange:4 sinterstore:-3:1:-1:1 smove:4:1:2:1 sort:-2 spop:-2
srem:-3 sunionstore:-3:1:-1:1 swapdb:3:0:0:0 unlink:-2:1:-1:1 xack:-4 xadd:-5 xautoclaim:-6
xclaim:-6 xdel:-3 xreadgroup:-7:0:0:0 xsetid:-3 xtrim:-4 zadd:-4 zdiffstore:-4 zincrby:4
zinterstore:-4 zmpop:-4:0:0:0 zpopmax:-2 zpopmin:-2 zrangestore:-5:1:2:1 zrem:-3
zremrangebylex:4 zremrangebyrank:4 zremrangebyscore:4 zunionstore:-4
`

// entries holds every command in the order in which COMMAND lists them, and commands by its name.
var entries, commands = readTables()

func readTables() (list []*entry, all map[string]*entry) {
	all = map[string]*entry{}
	add := func(head string, e *entry) {
		fields := strings.Split(head, ":")
		e.name = fields[0]
		for i, field := range fields[1:] {
			n, err := strconv.Atoi(field)
			if err != nil {
				panic(head)
			}
			*[]*int{&e.arity, &e.first, &e.last, &e.step}[i] = n
		}
		if container, _, is := strings.Cut(e.name, "|"); is {
			all[container].sub = append(all[container].sub, e)
			return
		}
		e.kind = kindOf(e)
		list, all[e.name] = append(list, e), e
	}
	for line := range strings.Lines(answered) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		flags := strings.ReplaceAll(strings.Trim(f[2], "-"), ",", " ")
		add(f[0], &entry{
			group: f[1], flags: flags, open: strings.Contains(flags, "no_auth"), summary: strings.Join(f[3:], " "),
			slow: !strings.Contains(flags, "fast") && !strings.HasPrefix(f[0], "client|") && f[0] != "acl|whoami:2",
		})
	}
	for head := range strings.FieldsSeq(written) {
		add(head, &entry{refused: true, flags: "write", first: 1, last: 1, step: 1,
			summary: "Is refused: ids are not stored."})
	}
	for _, e := range list {
		if len(e.sub) > 0 {
			e.sub = append(e.sub, &entry{name: e.name + "|help", arity: 2, flags: "loading stale", group: e.group,
				summary: "Lists the subcommands."})
		}
	}
	return list, all
}

// kindOf says how a command is counted.
func kindOf(e *entry) protocol.Counter {
	switch e.name {
	case "get", "mget":
		return protocol.CmdGet
	case "incr", "incrby", "decr", "decrby", "incrbyfloat":
		return protocol.CmdIncr
	case "info":
		return protocol.CmdStats
	case "del", "unlink", "getdel":
		return protocol.CmdDelete
	case "expire", "expireat", "pexpire", "pexpireat", "persist", "touch":
		return protocol.CmdTouch
	case "flushall", "flushdb":
		return protocol.CmdFlush
	}
	if e.refused {
		return protocol.CmdSet
	}
	return protocol.CmdOther
}

// longestName limits the name of a command, in bytes.
const longestName = 32

// find returns the entry of a command, or nil.
func find(name []byte) *entry {
	return commands[string(lower(make([]byte, 0, longestName), name))]
}

// findSub returns the entry of a subcommand, or nil.
func (e *entry) findSub(name []byte) *entry {
	for _, sub := range e.sub {
		if isWord(name, sub.name[len(e.name)+1:]) {
			return sub
		}
	}
	return nil
}
