package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

const soon = 300 * time.Millisecond // a timeout for calls that get no answer

// TestScripts plays what becomes of a pool and its daemons while servers, networks and clocks fail, see scene.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.script")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".script"), func(t *testing.T) {
			t.Parallel()
			script.Run(t, file, func(t *testing.T, play func(script.Do)) {
				s := &scene{t: t, dir: t.TempDir(), servers: map[string]*redistest.Server{}, proxies: map[string]*redistest.Proxy{},
					daemons: map[string]*daemon{}, wrong: map[string]*atomic.Int64{}, ended: make(chan string)}
				calls := s.calls()
				maps.Copy(calls, s.ofAnnouncements())
				play(func(words []string) string { return s.named(calls.Do(t, words)) })
			})
		})
	}
}

// A scene is what a script has begun: servers, proxies and daemons, by name. All clocks are the script's.
type scene struct {
	*world
	t         *testing.T
	dir       string
	servers   map[string]*redistest.Server
	proxies   map[string]*redistest.Proxy
	daemons   map[string]*daemon
	wrong     map[string]*atomic.Int64 // ms of a daemon's or "operator"'s clock before the script's
	ended     chan string
	histories []string
	restore   func()
	channel   *goredis.PubSub
}

func (s *scene) calls() script.Calls {
	return script.Calls{
		// pair: m and its replica r, which reaches it over the proxy q; daemons come over p
		// server m; replica r m; sentinels s 3 m REPLICAS makes s1, s2, s3; cluster 2 makes n1 and n2; proxy p m
		"server": func(name string, args ...string) { s.begin(name, redistest.Start(s.t, args...)) },
		"replica": func(name, of string, args ...string) {
			s.servers[name] = cmp.Or(s.servers[of], s.server).ReplicaAt(s.addr(of), args...)
		},
		"sentinels": func(name string, n int, of string, replicas int) {
			for i, sentinel := range redistest.Sentinels(s.t, n, replicas, s.addr(of)) {
				s.servers[fmt.Sprint(name, i+1)] = sentinel
			}
		},
		"pair":    s.pair,
		"cluster": s.cluster,
		"cluster-replica": func(name string, nodes ...string) {
			s.servers[name] = redistest.ClusterReplica(s.all(nodes))
		},
		"proxy": func(name, of string) { s.proxies[name] = redistest.NewProxy(s.t, s.addr(of)) },
		"kill":  func(name string) { s.servers[name].Kill() }, "launch": func(name string) { s.servers[name].Launch() },
		"pause": func(name string) { s.servers[name].Pause() }, "resume": func(name string) { s.servers[name].Resume() },
		"catch-up": func(name, with string) { s.servers[name].CatchUp(s.servers[with]) },
		// redis m GET NS:ids; NS is the pool's name, PORT:m and NODE:m are m's
		"redis": func(name string, words ...string) any { return s.redis(s.servers[name], words) },
		"info":  func(name, field string) string { return s.servers[name].Info(field) },
		// requests p hold, answers p drop, answers p pass, requests p 1.2s
		"requests": func(name, how string) { s.traffic(how, s.proxies[name].Requests, s.proxies[name].DelayRequests) },
		"answers":  func(name, how string) { s.traffic(how, s.proxies[name].Answers, s.proxies[name].DelayAnswers) },
		"refuse":   func(name string, on bool) { s.proxies[name].Refuse(on) },
		"only":     func(name, ip string) { s.proxies[name].OnlyFor(ip) },
		"cut":      func(name string) { s.proxies[name].Cut() },
		"retarget": func(name, to string) { s.proxies[name].Retarget(s.addr(to)) },
		// promote r p q: daemons come over p, and r's master is reached over q
		"promote": s.promote,

		// clock 5s moves all clocks, ahead 2s Redis's only, wrong a 3s a daemon's or the operator's
		"clock": func(d time.Duration) { s.advance(d.Milliseconds()) },
		"ahead": func(d time.Duration) { s.ahead.Store(d.Milliseconds()) },
		"wrong": func(name string, d time.Duration) { s.offset(name).Store(d.Milliseconds()) },

		// at m; at user:secret@m; at redis+sentinel s1 s2; at rediscluster n1
		"at": s.at,
		// pool max=1 lease=2m skew=10s replicas=1 layout=other raus=raus auto evicting: of daemons that begin from now on
		"pool": s.settings,
		// init new|wait|replace|migrated; holders a b: a pool, and daemons that have had a worker id for half a lease
		"init":        func(how string) (string, error) { return s.operator().initialise(context.Background(), How(how)) },
		"holders":     s.holders,
		"begin":       func(names ...string) { s.with(names, func(*daemon) error { return nil }) },
		"acquire":     func(names ...string) string { return s.with(names, s.acquire(redislink.Patience)) },
		"extend":      func(names ...string) string { return s.with(names, s.extend(redislink.Patience)) },
		"keep":        s.keep,
		"soon":        s.soon,
		"sent":        s.sent,
		"release":     s.giveBack,
		"copy":        func(of, name string) { s.copied(of, name) },
		"status":      s.status,
		"remembered":  func(name string) int { return s.daemons[name].requests() },
		"start":       func(call ...string) { go func() { s.ended <- s.calls().Do(s.t, call) }() },
		"ended":       func() string { return <-s.ended },
		"listen":      func() (string, error) { return s.operator().Init(context.Background(), New) },
		"list":        s.list,
		"stats":       s.stats,
		"json":        s.json,
		"free":        s.free,
		"reset-clock": s.resetClock,
		"replicas":    s.replicas,
		"need":        func(n int) error { return s.operator().SetReplicas(context.Background(), n) },
		// raus: lock 1; hear CHANNEL, heard; take a 1 takes a lock and does not hear the answer; late-lock a 1 900ms
		// moves a's clock when it has the lock; lanes a b c extends what all of them hold as lanes of a
		"lock":  s.lockOf,
		"hear":  s.hear,
		"heard": s.heard,
		"take": func(name string, worker uint64) {
			s.daemons[name].raus.do(context.Background(), rausTake, worker, rausExpiry)
		},
		"late-lock": s.lateLock,
		"extend-first": func(name string) string { // of what waits for replicas
			s.daemons[name].wire.needed = 0
			return s.with([]string{name}, s.extend(redislink.Patience))
		},
		"lane": func(of, name string) {
			s.daemons[name] = &daemon{Store: s.daemons[of].Store, world: s.world, owner: workerid.NewOwner()}
		},
		"lanes": s.lanes,

		"announce": func(name, as, text string) error {
			s.with([]string{name}, func(*daemon) error { return nil })
			return s.daemons[name].announce(as, text)
		},
		"peers": func(name string) (any, error) { return s.daemons[name].Peers(context.Background()) },
		// kick m: all its clients, but the script's
		"kick": func(name string) { s.servers[name].Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") },
		// password-file 'TEXT\r\n' 0600: where daemons and operators that begin from now on find theirs
		"password-file": func(text string, mode os.FileMode) error {
			s.config.PasswordFile = filepath.Join(s.dir, "password")
			text = strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(text)
			return errors.Join(os.WriteFile(s.config.PasswordFile, []byte(text), mode), os.Chmod(s.config.PasswordFile, mode))
		},
		"documented": func(doc string) { s.server.Do(documentedRule(s.t, doc)...) },
		"node":       func(name string) { s.servers[name] = redistest.Cluster(s.t, 1)[0] },
		"load":       func(name string) { s.servers[name].LaunchOnly() },
		"save":       func(name string) { s.restore = s.snapshot() },
		"restore":    func(name string) { s.restore() },
		"busy": func(name string) {
			s.servers[name].Client().Eval(context.Background(), "while true do end", nil)
		},
	}
}

// begin makes a server the one that daemons go to.
func (s *scene) begin(name string, server *redistest.Server) {
	if s.servers[name] = server; s.world == nil {
		s.world = worldOf(s.t, server)
	}
}

func (s *scene) all(names []string) (all []*redistest.Server) {
	for _, name := range names {
		all = append(all, s.servers[name])
	}
	return all
}

func (s *scene) addr(name string) string {
	if p := s.proxies[name]; p != nil {
		return p.Addr()
	}
	return s.servers[name].Addr()
}

func (s *scene) pair() {
	s.begin("m", redistest.Start(s.t))
	s.proxies["q"], s.proxies["p"] = redistest.NewProxy(s.t, s.addr("m")), redistest.NewProxy(s.t, s.addr("m"))
	s.servers["r"] = s.server.ReplicaAt(s.addr("q"))
	s.at("p")
}

// cluster makes n nodes; the pool is on the first.
func (s *scene) cluster(n int) {
	for i, node := range redistest.Cluster(s.t, n) {
		s.begin(fmt.Sprint("n", i+1), node)
	}
	for i := 0; i == 0 || s.server.Do("CLUSTER", "KEYSLOT", s.namespace).(int64) >= int64(16384/n); i++ {
		s.namespace = fmt.Sprint("{pool", i, "}")
	}
}

// named has names for what is another one each time.
func (s *scene) named(text string) string {
	for name, server := range s.servers {
		text = strings.ReplaceAll(text, server.Addr(), name)
	}
	for name, p := range s.proxies {
		text = strings.ReplaceAll(text, p.Addr(), name)
	}
	for name, d := range s.daemons {
		text = strings.ReplaceAll(text, d.owner, name)
	}
	text = strings.ReplaceAll(text, s.dir, "DIR")
	if s.world != nil {
		text = strings.ReplaceAll(text, strings.Trim(s.namespace, "{}"), "NS")
	}
	return lockValue.ReplaceAllString(text, "a daemon")
}

var lockValue = regexp.MustCompile(`katsubushi/\w+/\w+`)

func (s *scene) redis(server *redistest.Server, words []string) any {
	var args []any
	for _, word := range words {
		word = strings.NewReplacer("NS", s.namespace, `\n`, "\n").Replace(word)
		if name, ok := strings.CutPrefix(word, "PORT:"); ok {
			word = strconv.Itoa(s.servers[name].Port)
		} else if name, ok := strings.CutPrefix(word, "NODE:"); ok {
			word = s.servers[name].NodeID()
		}
		args = append(args, word)
	}
	return server.Do(args...)
}

func (s *scene) traffic(how string, mode func(redistest.Mode), delay func(time.Duration)) {
	modes := map[string]redistest.Mode{"pass": redistest.Pass, "hold": redistest.Hold, "drop": redistest.Drop}
	if m, ok := modes[how]; ok {
		mode(m)
		delay(0)
	} else if d, err := time.ParseDuration(how); err == nil {
		delay(d)
	}
}

func (s *scene) promote(name string, proxies ...string) {
	for i, p := range proxies {
		s.proxies[p].Refuse(i > 0)
		s.proxies[p].Cut()
	}
	s.servers[name].Promote()
	if len(proxies) > 0 {
		s.proxies[proxies[0]].Retarget(s.addr(name))
	}
}

func (s *scene) at(words ...string) {
	scheme, db := "redis", "/0"
	if strings.HasPrefix(words[0], "redis") {
		scheme, words = words[0], words[1:]
		db = map[string]string{"redis+sentinel": "/main/0", "rediscluster": "/"}[scheme]
	}
	for i, word := range words {
		user, name, ok := strings.Cut(word, "@")
		if !ok {
			user, name = "", user
		}
		words[i] = strings.TrimPrefix(user+"@", "@") + s.addr(name)
	}
	s.config.URL = scheme + "://" + strings.Join(words, ",") + db + "?ns=" + strings.Trim(s.namespace, "{}")
}

func (s *scene) settings(words ...string) {
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		d, _ := time.ParseDuration(value)
		switch name {
		case "min":
			s.config.Min = uint64(n)
		case "max":
			s.config.Max = uint64(n)
		case "lease":
			s.config.Lease = d
		case "skew":
			s.config.MaxSkew = d
		case "replicas":
			s.config.Replicas = n
		case "layout":
			s.config.Layout = value
		case "raus":
			s.config.HoldRaus = value
		case "auto":
			s.config.AutoInit = true
		case "evicting":
			s.config.AllowEviction = true
		case "ns":
			s.config.URL = regexp.MustCompile("ns=.*").ReplaceAllString(s.config.URL, word)
			s.windows = map[uint64][]window{}
		default:
			s.t.Fatalf("%q: what is that?", word)
		}
	}
}

// offset is by how much a clock is wrong, in ms.
func (s *scene) offset(name string) *atomic.Int64 {
	if s.wrong[name] == nil {
		s.wrong[name] = &atomic.Int64{}
	}
	return s.wrong[name]
}

func (s *scene) clocked(name string) func(*Config) {
	off := s.offset(name)
	return func(c *Config) { c.Now = func() int64 { return s.now() + off.Load() } }
}

func (s *scene) operator() operator {
	was := s.config
	defer func() { s.config = was }()
	s.clocked("operator")(&s.config)
	return s.pool()
}

// snapshot returns what puts the keys back as they are now.
func (w *world) snapshot() (putBack func()) {
	old := map[string]any{}
	for _, k := range []string{"ids", "clients", "stats", "hw", "meta"} {
		if old[k] = w.server.Do("DUMP", w.key(k)); old[k] == nil {
			delete(old, k)
		}
	}
	return func() {
		w.server.Do("DEL", w.key("clients"), w.key("hw"))
		for k, v := range old {
			w.server.Do("RESTORE", w.key(k), 0, v, "REPLACE")
		}
	}
}

// documentedRule is the command that a document says makes the user that a daemon needs.
func documentedRule(t *testing.T, doc string) (command []any) {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + doc)
	if err != nil {
		t.Fatal(err)
	}
	_, rule, _ := strings.Cut(string(text), "\nACL SETUSER ")
	rule, _, _ = strings.Cut("ACL SETUSER "+rule, "\n")
	for word := range strings.FieldsSeq(strings.ReplaceAll(rule, "~NAME:*", "~"+redistest.Namespace(t)+":*")) {
		command = append(command, word)
	}
	return command
}
