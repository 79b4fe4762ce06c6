package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestScripts plays what becomes of sequences while servers come and go. Beside the calls of countertest.Stage there
// are those of fleet.
func TestScripts(t *testing.T) {
	for _, name := range []string{"errors", "fleet", "losses"} {
		script.Run(t, "testdata/"+name+".script", func(t *testing.T, play func(script.Do)) {
			f := &fleet{Stage: countertest.NewStage(t), t: t, servers: map[string]*redistest.Server{},
				proxies: map[string]*redistest.Proxy{}, vars: map[string]string{}, now: wallClock()}
			maps.Copy(f.Calls, f.begins())
			maps.Copy(f.Calls, f.calls())
			play(f.do)
		})
	}
}

// A fleet is what a script has begun.
type fleet struct {
	*countertest.Stage
	t       *testing.T
	servers map[string]*redistest.Server
	proxies map[string]*redistest.Proxy
	vars    map[string]string
	now     int64 // ms
	runs    time.Duration
	on      server // that a call read
	read    string
}

func (f *fleet) do(words []string) string {
	f.now += f.runs.Milliseconds()
	for i, word := range words {
		words[i] = f.expand(word)
	}
	said := f.Do(words)
	for name, s := range f.servers {
		said = strings.ReplaceAll(said, s.Addr(), name)
	}
	return strings.ReplaceAll(f.Constant(said), redistest.Namespace(f.t), "NS")
}

// begins are calls that begin something.
func (f *fleet) begins() script.Calls {
	return script.Calls{
		// server m [durable|WORDS], replica r m [durable|WORDS]; durable = whatever it has confirmed is on its disk
		"server": func(name string, args ...string) { f.servers[name] = redistest.Start(f.t, settings(args)...) },
		"replica": func(name string, of *redistest.Server, args ...string) {
			f.servers[name] = of.Replica(settings(args)...)
		},
		// replica-at r m p: it reaches m there; p holds what m tells it
		"replica-at": func(name string, of *redistest.Server, over *redistest.Proxy) {
			f.servers[name] = of.ReplicaAt(over.Addr())
		},
		// sentinel s m 1: it knows of so many replicas
		"sentinel": func(name string, of *redistest.Server, replicas int) {
			f.servers[name] = redistest.Sentinels(f.t, 1, replicas, of.Addr())[0]
		},
		// tls t: a server with TLS, whose $cert is its clients' too
		"tls": func(name string) {
			s := redistest.StartTLS(f.t)
			f.vars[name], f.vars["cert"], f.vars["certs"] = s.Addr, s.Cert, s.Query()
		},
		"proxy": func(name string, of *redistest.Server) { f.proxies[name] = redistest.NewProxy(f.t, of.Addr()) },
		// open a m [operator] [replicas=1] [ns=x] [skew=5s] [clocked [ahead=2s] [blind]]: a store; skew = its clock is that
		// far away; clocked = its clock and its server's are the script's; ahead = the server's is that far away; blind = all
		// servers have one history
		"open": f.open,
		// clock 5s, clock-runs 1s: moves that, and with each command from now on
		"clock":      func(d time.Duration) { f.now += d.Milliseconds() },
		"clock-runs": func(d time.Duration) { f.runs = d },
		// needs 7.2 skips what that version has made impossible
		"needs": func(version string) {
			for _, s := range f.servers {
				if s.Info("redis_version") >= version {
					f.t.Skip("does not apply to this version")
				}
			}
		},
	}
}

func settings(args []string) []string {
	if slices.Contains(args, "durable") {
		return durable
	}
	return args
}

// calls are those of servers, proxies and stores.
func (f *fleet) calls() script.Calls {
	return script.Calls{
		"servers": f.servers, "proxies": f.proxies,
		"refuses": (*redistest.Proxy).Refuse,
		"holds":   func(p *redistest.Proxy) { p.Answers(redistest.Hold) },
		"to":      func(p *redistest.Proxy, s *redistest.Server) { p.Retarget(s.Addr()) }, // new connections only
		"kills":   (*redistest.Server).Kill, "launches": (*redistest.Server).Launch,
		"pauses": (*redistest.Server).Pause, "resumes": (*redistest.Server).Resume,
		"promotes": (*redistest.Server).Promote, "catches-up": (*redistest.Server).CatchUp,
		// m says FIELD of INFO; m has WORD: what the record of orders has there; m sets items safe false
		"says": (*redistest.Server).Info, "has": f.has, "sets": f.set,
		"spins": func(s *redistest.Server) { go s.Client().Do(bg, "EVAL", "while true do end", 0) },
		// m loads its data, for long
		"loads": f.load,
		// m redis PING: a command; its answer. "_" is a space; m asks PING: the same on a connection of its own; m pings
		// TEXT: whether its error has that
		"redis": func(s *redistest.Server, args ...string) any {
			var words []any
			for _, word := range args {
				words = append(words, strings.NewReplacer("NS", redistest.Namespace(f.t), "_", " ").Replace(word))
			}
			return s.Do(words...)
		},
		"asks": func(s *redistest.Server, words ...string) string {
			text, err := s.Ask(words...)
			return countertest.Said(strings.ReplaceAll(text, "\n", ":"), err)
		},
		"pings": func(s *redistest.Server, wrong string) string {
			text, err := s.Ask("PING")
			if err != nil && strings.HasPrefix(err.Error(), wrong) {
				return "yes"
			}
			return countertest.Said(text, err)
		},
		// list TEXT URL: List of another store, whose error has that text; $m is an address, $port a free port; a defines
		// TEXT, a reserves TEXT: the same of its calls
		"list-of": f.list,
		"defines": func(s *Store, text string) string {
			_, err := s.Define(bg, counter.Sequence("orders"))
			return f.with(err, text)
		},
		"reserves": func(s *Store, text string) string {
			_, err := s.Reserve(bg, "orders", 1)
			return f.with(err, text)
		},
		// press 10 a b: both ask for all that there is, so often
		"press": func(times int, names ...string) (said string) {
			for range times {
				f.now += f.runs.Milliseconds()
				for _, name := range names {
					if got := f.Do([]string{name, "takes", "orders", "1000000"}); strings.HasPrefix(got, "twice") {
						said += got
					}
				}
			}
			return said
		},
		// a leaves m: it asks until that server's record of orders has another history; whether it got a block
		"leaves": f.leaves,
		// a reads, a writes [history|record|none]: what a call read, and whether it writes over that, or something else
		"reads": f.reads, "writes": f.writes,
		// a replicas 1: SetReplicas, which returns how many there were
		"replicas": func(s *Store, n int) string { return countertest.Said(s.SetReplicas(bg, n)) },
		"promised": func(s *Store) string { return countertest.Said(s.NotPromised(bg)) },
	}
}

// expand puts addresses into a word.
func (f *fleet) expand(word string) string {
	return os.Expand(word, func(name string) string {
		if s := f.servers[name]; s != nil {
			return s.Addr()
		}
		if p := f.proxies[name]; p != nil {
			return p.Addr()
		}
		if of, ok := strings.CutPrefix(name, "port_of_"); ok {
			return strconv.Itoa(f.servers[of].Port)
		}
		free := map[string]string{"port": strconv.Itoa(redistest.FreePort(f.t)), "dir": f.t.TempDir()}
		return cmp.Or(f.vars[name], free[name])
	})
}

// list is an error of a List. On a busy machine it may not be what Redis would have said.
func (f *fleet) list(text, url string) (said string) {
	for range 30 {
		c := Config{URL: url + "ns=" + redistest.Namespace(f.t), Operator: true, limit: redislink.DialTimeout}
		_, err := open(f.t, c).List(bg)
		said = f.with(err, text)
		if timeout, ok := errors.AsType[net.Error](err); !ok || !timeout.Timeout() || said[len(said)-1] == ']' {
			break
		}
	}
	return said
}

// with is an error of which only one text matters.
func (f *fleet) with(err error, text string) string {
	if errors.Is(err, counter.ErrUnavailable) && counter.Certain(err) {
		f.t.Errorf("%v is certain", err)
	}
	said := countertest.Said("", err)
	if err != nil && strings.Contains(said, strings.ReplaceAll(text, "_", " ")) {
		said = said[:strings.IndexByte(said, ']')+1]
	}
	return said
}

// leaves lets a store ask for blocks until a server has another history, and says what it got.
func (f *fleet) leaves(name string, server *redistest.Server) (said string) {
	before := f.has(server, "history")
	redistest.Until(f.t, "the new master has noticed the loss", func() bool {
		if got := f.Do([]string{name, "takes", "orders", "100"}); got == "ok\n" {
			said = "got a block"
		}
		return f.has(server, "history") != before
	})
	return said
}

// reads is a part of a call: before it writes another server may become master, or another daemon write.
func (f *fleet) reads(s *Store) string {
	s.wire.Turn <- struct{}{}
	defer func() { <-s.wire.Turn }()
	on, values, err := s.read("=orders")
	f.on, f.read = on, values[0].text
	return countertest.Said("", err)
}

func (f *fleet) writes(s *Store, over ...string) string {
	s.wire.Turn <- struct{}{}
	defer func() { <-s.wire.Turn }()
	on, old := f.on, f.read
	switch append(over, "")[0] {
	case "history":
		on.History = "another"
	case "record":
		old += "x"
	case "none":
		old = ""
	}
	ok, _, err := s.write(on, field("orders"), old, "nonsense", false, 0)
	return countertest.Said(ok, err)
}

// record is what a server has of a sequence.
func (f *fleet) record(s *redistest.Server, name string) string {
	return fmt.Sprint(s.Do("HGET", redistest.Namespace(f.t)+":sequences", "="+name))
}

func (f *fleet) has(s *redistest.Server, word string) string {
	_, text, _ := strings.Cut(f.record(s, "orders"), " "+word+"=")
	text, _, _ = strings.Cut(text, " ")
	return text
}

func (f *fleet) set(s *redistest.Server, name, word, to string) any {
	old := regexp.MustCompile(" " + word + "=[^ ]*")
	return s.Do("HSET", redistest.Namespace(f.t)+":sequences", "="+name,
		old.ReplaceAllString(f.record(s, name), " "+word+"="+to))
}

func (f *fleet) load(s *redistest.Server) error {
	defer s.LaunchOnly()
	return os.WriteFile(filepath.Join(s.Dir, "redis.conf"),
		[]byte("key-load-delay 1000\nloading-process-events-interval-bytes 1024\n"), 0o600)
}

// open opens a Store of a server, a Sentinel or a proxy.
func (f *fleet) open(name, at string, words ...string) {
	ns, query, skew, ahead := redistest.Namespace(f.t), "", time.Duration(0), time.Duration(0)
	for _, word := range words {
		switch option, value, _ := strings.Cut(word, "="); option {
		case "replicas":
			query = "&" + word
		case "ns":
			ns = value
		case "skew":
			skew, _ = time.ParseDuration(value)
		case "ahead":
			ahead, _ = time.ParseDuration(value)
		}
	}
	url := "redis://" + f.expand("$"+at) + "/0?ns=" + ns + query
	if s := f.servers[at]; s != nil && s.Info("redis_mode") == "sentinel" {
		url = strings.NewReplacer("redis:", "redis+sentinel:", "/0?", "/main/0?").Replace(url)
	}
	has := func(word string) bool { return slices.Contains(words, word) }
	s := open(f.t, Config{URL: url, Operator: has("operator"), anyMax: has("anymax")})
	if has("clocked") {
		s.with(&f.now, ahead.Milliseconds(), has("blind"))
	}
	now := s.c.now
	s.c.now = func() int64 { return now() + skew.Milliseconds() }
	f.Stores[name] = s
}

// fakeServer lets scripts see the clock that is their last argument, and, as the argument before says, the
// same history everywhere.
const fakeServer = `
local redis = (function(real)
  local now, same = tonumber(table.remove(ARGV)), table.remove(ARGV) == 'same'
  local function call(command, ...)
    if command == 'TIME' then return {string.format('%.0f', math.floor(now / 1000)), string.format('%.0f', now % 1000 * 1000)} end
    local reply = real.call(command, ...)
    if command == 'INFO' and same then reply = reply:gsub('run_id:%x+', 'run_id:0'):gsub('master_replid:%x+', 'master_replid:0') end
    return reply
  end
  return setmetatable({call = call}, {__index = real})
end)(redis)
`

// with lets a store and its servers go by one clock, which only the test moves; theirs is so many milliseconds ahead.
func (s *Store) with(now *int64, ahead int64, blind bool) *Store {
	history := map[bool]string{true: "same"}[blind]
	s.c.now = func() int64 { return *now }
	s.prepare = func(script string, args []string) (string, []string) {
		return fakeServer + script, append(slices.Clone(args), history, strconv.FormatInt(*now+ahead, 10))
	}
	return s
}

var bg = context.Background()
