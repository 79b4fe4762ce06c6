package resp

import (
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A deed is what a command does.
type deed uint8

const (
	store deed = iota // refuse to change anything
	container
	help
	doNothing // what it asks for is already the case
	get
	mget
	incr
	incrBy
	ping
	echo
	hello
	auth
	selectDB
	quit
	reset
	info
	configGet
	dbSize
	typeOf
	exists
	ttl
	tellTime
	role
	whoAmI
	begin
	execQueued
	discard
	watch
	clientID
	clientGetName
	clientSetName
	clientSetInfo
	clientInfo
	clientList
	clientSwitch
	clientTracking
	clientReply
	commandAll
	commandCount
	commandDocs
	commandInfo
	commandGetKeys
	clusterSlots
	clusterShards
	clusterNodes
	clusterInfo
	clusterKeySlot
	clusterMyID
	readOnly
	readWrite
	clusterCountKeys
	clusterGetKeys
)

// An entry is a command: what it does, and what COMMAND says about it.
type entry struct {
	name  string // in lower case; of a subcommand: container|name
	does  deed
	arity int // arguments, the name and the container's included; negative: at least so many
	kind  protocol.Counter
	open  bool // allowed before the client has authenticated
	flags string
	// Its keys are arguments first, first+step, ..., last; negative: counted from the end; 0 = none.
	first, last, step int
	group             string
	summary           string
	sub               []*entry
}

// fits reports whether a command may have n arguments, the name included.
func (e *entry) fits(n int) bool { return n == e.arity || e.arity < 0 && n >= -e.arity }

const (
	fast  = "loading stale fast"
	admin = "noscript loading stale"
)

// entries holds every command but those of written.
var entries = []*entry{
	{name: "get", does: get, arity: 2, kind: protocol.CmdGet, flags: "readonly fast", first: 1, last: 1, step: 1,
		group: "string", summary: "Returns a new id."},
	{name: "mget", does: mget, arity: -2, kind: protocol.CmdGet, flags: "readonly fast", first: 1, last: -1, step: 1,
		group: "string", summary: "Returns a new id for each key."},
	{name: "incr", does: incr, arity: 2, kind: protocol.CmdIncr, flags: "write denyoom fast", first: 1, last: 1, step: 1,
		group: "string", summary: "Returns a new id as an integer."},
	{name: "incrby", does: incrBy, arity: 3, kind: protocol.CmdIncr, flags: "write denyoom fast", first: 1, last: 1,
		step: 1, group: "string", summary: "Reserves values of a sequence and returns the last."},
	{name: "dbsize", does: dbSize, arity: 1, flags: "readonly fast", group: "server",
		summary: "Returns 0: nothing is stored."},
	{name: "type", does: typeOf, arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, group: "generic",
		summary: "Returns string."},
	{name: "exists", does: exists, arity: -2, flags: "readonly fast", first: 1, last: -1, step: 1, group: "generic",
		summary: "Returns the number of keys: every key exists."},
	{name: "ttl", does: ttl, arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, group: "generic",
		summary: "Returns -1: keys do not expire."},
	{name: "pttl", does: ttl, arity: 2, flags: "readonly fast", first: 1, last: 1, step: 1, group: "generic",
		summary: "Returns -1: keys do not expire."},

	{name: "ping", does: ping, arity: -1, flags: "fast", group: "connection", summary: "Returns PONG, or the message."},
	{name: "echo", does: echo, arity: 2, flags: fast, group: "connection", summary: "Returns the message."},
	{name: "hello", does: hello, arity: -1, open: true, flags: "noscript " + fast + " no_auth allow_busy",
		group: "connection", summary: "Chooses the protocol's version, logs in, names the connection."},
	{name: "auth", does: auth, arity: -2, open: true, flags: "noscript " + fast + " no_auth allow_busy",
		group: "connection", summary: "Logs in."},
	{name: "select", does: selectDB, arity: 2, flags: fast, group: "connection",
		summary: "Accepts database 0, the only one."},
	{name: "quit", does: quit, arity: -1, open: true, flags: "noscript " + fast + " no_auth allow_busy",
		group: "connection", summary: "Closes the connection."},
	{name: "reset", does: reset, arity: 1, open: true, flags: "noscript " + fast + " no_auth allow_busy",
		group: "connection", summary: "Makes the connection as it was at first."},
	{name: "readonly", does: readOnly, arity: 1, flags: fast, group: "cluster",
		summary: "Lets GET and MGET have ids that another server issues."},
	{name: "readwrite", does: readWrite, arity: 1, flags: fast, group: "cluster", summary: "Ends READONLY."},
	{name: "asking", does: doNothing, arity: 1, flags: "fast", group: "cluster", summary: "Has no effect."},
	{name: "time", does: tellTime, arity: 1, flags: fast, group: "server", summary: "Returns the id clock's time."},
	{name: "role", does: role, arity: 1, flags: admin + " fast", group: "server",
		summary: "Returns master, without replicas."},
	{name: "info", does: info, arity: -1, kind: protocol.CmdStats, flags: "loading stale", group: "server",
		summary: "Returns statistics."},

	{name: "multi", does: begin, arity: 1, flags: "noscript " + fast + " allow_busy", group: "transactions",
		summary: "Begins a transaction: commands are queued."},
	{name: "exec", does: execQueued, arity: 1, flags: admin + " skip_slowlog", group: "transactions",
		summary: "Runs the queued commands in order."},
	{name: "discard", does: discard, arity: 1, flags: "noscript " + fast + " allow_busy", group: "transactions",
		summary: "Forgets the queued commands."},
	{name: "watch", does: watch, arity: -2, flags: "noscript " + fast + " allow_busy", first: 1, last: -1, step: 1,
		group: "transactions", summary: "Has no effect: no key ever changes."},
	{name: "unwatch", does: doNothing, arity: 1, flags: "noscript " + fast + " allow_busy", group: "transactions",
		summary: "Has no effect."},

	{name: "client", does: container, arity: -2, group: "connection",
		summary: "A container for commands about the connection.", sub: []*entry{
			{name: "client|id", does: clientID, arity: 2, flags: admin, summary: "Returns the connection's number."},
			{name: "client|getname", does: clientGetName, arity: 2, flags: admin, summary: "Returns the connection's name."},
			{name: "client|setname", does: clientSetName, arity: 3, flags: admin, summary: "Names the connection."},
			{name: "client|setinfo", does: clientSetInfo, arity: 4, flags: admin,
				summary: "Accepts the client library's name and version, and forgets them."},
			{name: "client|info", does: clientInfo, arity: 2, flags: admin, summary: "Describes the connection."},
			{name: "client|list", does: clientList, arity: -2, flags: "admin " + admin,
				summary: "Describes this connection; others are not listed."},
			{name: "client|no-evict", does: clientSwitch, arity: 3, flags: "admin " + admin, summary: "Has no effect."},
			{name: "client|no-touch", does: clientSwitch, arity: 3, flags: admin, summary: "Has no effect."},
			{name: "client|tracking", does: clientTracking, arity: -3, flags: admin,
				summary: "Refuses to let the client cache ids."},
			{name: "client|reply", does: clientReply, arity: 3, flags: admin, summary: "Switches replies on and off."},
		}},
	{name: "command", does: commandAll, arity: -1, flags: "loading stale", group: "server",
		summary: "Describes all commands.", sub: []*entry{
			{name: "command|count", does: commandCount, arity: 2, flags: "loading stale",
				summary: "Returns the number of commands."},
			{name: "command|docs", does: commandDocs, arity: -2, flags: "loading stale", summary: "Says what commands do."},
			{name: "command|info", does: commandInfo, arity: -2, flags: "loading stale", summary: "Describes commands."},
			{name: "command|getkeys", does: commandGetKeys, arity: -4, flags: "loading stale",
				summary: "Returns the keys of a command."},
		}},
	{name: "config", does: container, arity: -2, group: "server", summary: "A container for commands about settings.",
		sub: []*entry{
			{name: "config|get", does: configGet, arity: -3, flags: "admin " + admin,
				summary: "Returns settings that clients ask for."},
		}},
	{name: "cluster", does: container, arity: -2, group: "cluster", summary: "A container for commands about the cluster.",
		sub: []*entry{
			{name: "cluster|slots", does: clusterSlots, arity: 2, flags: "stale", summary: "Returns the slots of each server."},
			{name: "cluster|shards", does: clusterShards, arity: 2, flags: "stale",
				summary: "Returns the slots of each server."},
			{name: "cluster|nodes", does: clusterNodes, arity: 2, flags: "stale", summary: "Describes the servers."},
			{name: "cluster|info", does: clusterInfo, arity: 2, flags: "stale", summary: "Describes the cluster."},
			{name: "cluster|keyslot", does: clusterKeySlot, arity: 3, flags: "stale", summary: "Returns the slot of a key."},
			{name: "cluster|myid", does: clusterMyID, arity: 2, flags: "stale", summary: "Returns this server's node id."},
			{name: "cluster|countkeysinslot", does: clusterCountKeys, arity: 3, flags: "stale",
				summary: "Returns 0: nothing is stored."},
			{name: "cluster|getkeysinslot", does: clusterGetKeys, arity: 4, flags: "stale",
				summary: "Returns nothing: nothing is stored."},
		}},
	{name: "acl", does: container, arity: -2, group: "server", summary: "A container for commands about users.",
		sub: []*entry{
			{name: "acl|whoami", does: whoAmI, arity: 2, flags: admin, summary: "Returns the user's name."},
		}},
}

// written lists Redis's other commands that write, each with its arity and, unless they are 1, 1 and
// 1, where its keys are. They are refused.
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

// commands holds every command by its name.
var commands = func() map[string]*entry {
	for word := range strings.FieldsSeq(written) {
		e := &entry{kind: kindOf(word), flags: "write", first: 1, last: 1, step: 1,
			summary: "Is refused: ids are not stored."}
		for i, field := range strings.Split(word, ":") {
			if i == 0 {
				e.name = field
				continue
			}
			n, err := strconv.Atoi(field)
			if err != nil {
				panic(word)
			}
			*[]*int{&e.arity, &e.first, &e.last, &e.step}[i-1] = n
		}
		entries = append(entries, e)
	}
	m := make(map[string]*entry, len(entries))
	for _, e := range entries {
		m[e.name] = e
		if len(e.sub) > 0 {
			e.sub = append(e.sub,
				&entry{name: e.name + "|help", does: help, arity: 2, flags: "loading stale", summary: "Lists the subcommands."})
		}
		for _, sub := range e.sub {
			sub.group = e.group
		}
	}
	return m
}()

// kindOf says how a refused command is counted.
func kindOf(word string) protocol.Counter {
	switch name, _, _ := strings.Cut(word, ":"); name {
	case "del", "unlink", "getdel":
		return protocol.CmdDelete
	case "expire", "expireat", "pexpire", "pexpireat", "persist", "touch":
		return protocol.CmdTouch
	case "decr", "decrby", "incrbyfloat":
		return protocol.CmdIncr
	case "flushall", "flushdb":
		return protocol.CmdFlush
	}
	return protocol.CmdSet
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
