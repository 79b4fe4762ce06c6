package redis

import (
	"cmp"
	"errors"
	"fmt"
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

// TestScripts plays what becomes of sequences while servers come and go. Beside the calls of countertest.Stage:
//
//	server m [durable|WORDS]   a master; durable = whatever it has confirmed is on its disk
//	replica r m [WORDS]        its replica
//	sentinel s m 1             a Sentinel that knows of so many replicas
//	tls t                      a server with TLS, whose $cert is its clients' too
//	proxy p m                  p refuses on|off, p to m
//	open a m [operator] [replicas=1] [ns=x] [clocked] [skew=5s]   a store; clocked = its clock and its server's are the
//	                           script's; skew = its own is that far away
//	press 10 a b               both ask for all that there is, so often
//	a leaves m                 it asks until that server's record of orders has another history; whether it got a block
//	clock 5s, clock runs 1s    moves that, and with each command from now on
//	list TEXT URL              List of another store, whose error has that text; $m is an address, $port a free port
//	a defines TEXT, a reserves TEXT   the same of its calls
//	m redis PING               a command; its answer. "_" is a space
//	m asks PING                the same on a connection of its own, and m pings TEXT: whether its error has that
//	m says FIELD               of INFO
//	m has WORD                 what the record of orders has there
//	m sets items safe false    a word of a record
//	m kills, launches, pauses, resumes, spins (in a script), loads (its data, for long)
//	a reads, a writes [history|record|none]   what a call read, and whether it writes over that, or something else
//	a replicas 1               SetReplicas, which returns how many there were
//	a promised                 NotPromised
//	needs 7.2                  skips what that version has made impossible
func TestScripts(t *testing.T) {
	for _, name := range []string{"errors", "fleet"} {
		script.Run(t, "testdata/"+name+".script", func(t *testing.T, play func(script.Do)) {
			play((&fleet{Stage: countertest.NewStage(t), t: t, servers: map[string]*redistest.Server{},
				proxies: map[string]*redistest.Proxy{}, vars: map[string]string{}, now: wallClock()}).do)
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
	said := f.command(words)
	for name, s := range f.servers {
		said = strings.ReplaceAll(said, s.Addr(), name)
	}
	return strings.ReplaceAll(f.Constant(said), redistest.Namespace(f.t), "NS")
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

func (f *fleet) command(words []string) string {
	var args []string
	for _, word := range words[min(2, len(words)):] {
		if word == "durable" {
			args = append(args, durable...)
		} else {
			args = append(args, f.expand(word))
		}
	}
	switch words[0] {
	case "server":
		f.servers[words[1]] = redistest.Start(f.t, args...)
	case "replica":
		f.servers[words[1]] = f.servers[words[2]].Replica(args[1:]...)
	case "sentinel":
		f.servers[words[1]] = redistest.Sentinels(f.t, 1, int(f.Number(words[3])), f.servers[words[2]].Addr())[0]
	case "open":
		f.Stores[words[1]] = f.open(words[2:])
	case "clock":
		d := f.Duration(words[len(words)-1])
		if words[1] == "runs" {
			f.runs = d
		}
		f.now += d.Milliseconds()
	case "tls":
		s := redistest.StartTLS(f.t)
		f.vars[words[1]], f.vars["cert"], f.vars["certs"] = s.Addr, s.Cert, s.Query()
	case "proxy":
		f.proxies[words[1]] = redistest.NewProxy(f.t, f.servers[words[2]].Addr())
	case "press":
		for range f.Number(words[1]) {
			f.now += f.runs.Milliseconds()
			for _, name := range words[2:] {
				f.Do([]string{name, "takes", "orders", "1000000"})
			}
		}
	case "list":
		return f.list(words[1], args[0])
	case "needs":
		for _, s := range f.servers {
			if s.Info("redis_version") >= words[1] {
				f.t.Skip("does not apply to this version")
			}
		}
	default:
		return f.named(words, args)
	}
	return ""
}

// list is an error of a List. On a busy machine it may not be what Redis would have said.
func (f *fleet) list(text, url string) (said string) {
	query := "?"
	if strings.Contains(url, "?") {
		query = "&"
	}
	for range 30 {
		c := Config{URL: url + query + "ns=" + redistest.Namespace(f.t), Operator: true, limit: redislink.DialTimeout}
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

// named is a command of a server, a proxy or a store.
func (f *fleet) named(words, args []string) string {
	if s := f.servers[words[0]]; s != nil {
		return f.server(s, words[1], args)
	}
	if p := f.proxies[words[0]]; p != nil {
		if words[1] == "to" {
			p.Retarget(f.servers[words[2]].Addr()) // new connections only
		} else {
			p.Refuse(words[2] == "on")
		}
		return ""
	}
	store, ok := f.Stores[words[0]].(*Store)
	if !ok {
		return f.Do(words)
	}
	switch words[1] {
	case "replicas":
		n, _ := strconv.Atoi(words[2])
		return countertest.Said(store.SetReplicas(bg, n))
	case "promised":
		text, err := store.NotPromised(bg)
		return countertest.Said(text, err)
	case "leaves":
		return f.leaves(words)
	case "defines":
		_, err := store.Define(bg, counter.Sequence("orders"))
		return f.with(err, words[2])
	case "reserves":
		_, err := store.Reserve(bg, "orders", 1)
		return f.with(err, words[2])
	case "reads", "writes":
		store.wire.Turn <- struct{}{}
		defer func() { <-store.wire.Turn }()
		return f.half(store, append(words, "")[1:])
	}
	return f.Do(words)
}

// leaves lets a store ask for blocks until a server has another history, and says what it got.
func (f *fleet) leaves(words []string) (said string) {
	has := func() string { return f.server(f.servers[words[2]], "has", []string{"history"}) }
	before := has()
	redistest.Until(f.t, "the new master has noticed the loss", func() bool {
		if got := f.Do([]string{words[0], "takes", "orders", "100"}); got == "ok" {
			said = "got a block"
		}
		return has() != before
	})
	return said
}

// half is a part of a call: between the read and the write another server may become master, or another daemon write.
func (f *fleet) half(s *Store, words []string) string {
	if words[0] == "reads" {
		on, values, err := s.read("=orders")
		f.on, f.read = on, values[0].text
		return countertest.Said("", err)
	}
	on, old := f.on, f.read
	switch words[1] {
	case "history":
		on.History = "another"
	case "record":
		old += "x"
	case "none":
		old = ""
	}
	ok, _, err := s.write(on, "orders", old, "nonsense", false, 0)
	return countertest.Said(ok, err)
}

func (f *fleet) server(s *redistest.Server, what string, args []string) string {
	switch what {
	case "redis":
		var words []any
		for _, word := range args {
			words = append(words, strings.NewReplacer("NS", redistest.Namespace(f.t), "_", " ").Replace(word))
		}
		return fmt.Sprint(s.Do(words...))
	case "asks", "pings":
		text, err := s.Ask(map[string][]string{"asks": args, "pings": {"PING"}}[what]...)
		if what == "pings" && err != nil && strings.HasPrefix(err.Error(), args[0]) {
			return "yes"
		}
		return countertest.Said(strings.ReplaceAll(text, "\n", ":"), err)
	case "spins":
		go s.Client().Do(bg, "EVAL", "while true do end", 0)
		return ""
	case "loads":
		if err := os.WriteFile(filepath.Join(s.Dir, "redis.conf"),
			[]byte("key-load-delay 1000\nloading-process-events-interval-bytes 1024\n"), 0o600); err != nil {
			f.t.Fatal(err)
		}
		s.LaunchOnly()
		return ""
	case "says":
		return s.Info(args[0])
	case "sets":
		key := redistest.Namespace(f.t) + ":sequences"
		text := fmt.Sprint(s.Do("HGET", key, "="+args[0]))
		old := regexp.MustCompile(" " + args[1] + "=[^ ]*")
		return fmt.Sprint(s.Do("HSET", key, "="+args[0], old.ReplaceAllString(text, " "+args[1]+"="+args[2])))
	case "has":
		text := fmt.Sprint(s.Do("HGET", redistest.Namespace(f.t)+":sequences", "=orders"))
		_, text, _ = strings.Cut(text, " "+args[0]+"=")
		text, _, _ = strings.Cut(text, " ")
		return text
	}
	map[string]func(){"kills": s.Kill, "launches": s.Launch, "pauses": s.Pause, "resumes": s.Resume}[what]()
	return ""
}

// open opens a Store of a server, a Sentinel or a proxy.
func (f *fleet) open(words []string) *Store {
	url := "redis://" + f.expand("$"+words[0]) + "/0?ns=" + redistest.Namespace(f.t)
	if s := f.servers[words[0]]; s != nil && s.Info("redis_mode") == "sentinel" {
		url = strings.Replace(strings.Replace(url, "redis:", "redis+sentinel:", 1), "/0?", "/main/0?", 1)
	}
	for _, word := range words {
		if strings.HasPrefix(word, "replicas=") {
			url += "&" + word
		}
		if ns, ok := strings.CutPrefix(word, "ns="); ok {
			url = strings.Replace(url, redistest.Namespace(f.t), ns, 1)
		}
	}
	has := func(word string) bool { return slices.Contains(words, word) }
	s := open(f.t, Config{URL: url, Operator: has("operator"), anyMax: has("anymax")})
	if has("clocked") {
		s.with(&f.now)
	}
	for _, word := range words {
		if skew, ok := strings.CutPrefix(word, "skew="); ok {
			by, now := f.Duration(skew), s.c.now
			s.c.now = func() int64 { return now() + by.Milliseconds() }
		}
	}
	return s
}

// with lets a store and its servers go by one clock, which only the test moves.
func (s *Store) with(now *int64) *Store {
	s.c.now = func() int64 { return *now }
	s.prepare = func(script string, args []string) (string, []string) {
		return fakeServer + script, append(slices.Clone(args), "", strconv.FormatInt(*now, 10))
	}
	return s
}
