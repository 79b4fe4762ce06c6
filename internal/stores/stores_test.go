package stores

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/memstore"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// inMemory is a kind of store that has none of Redis's settings.
type inMemory struct{ s Settings }

func (m inMemory) Validate() error              { return m.s.Terms.Validate() }
func (inMemory) ReadSecrets() error             { return nil }
func (m inMemory) WithDefaults() workerid.Terms { return m.s.Terms.WithDefaults() }
func (inMemory) BestHeartbeat() time.Duration   { return 7 * time.Second }
func (inMemory) Pool() string                   { return "/here" }
func (m inMemory) Open() (workerid.Backend, error) {
	t := m.s.Terms
	return backend{&memstore.Client{Pool: memstore.NewPool(memstore.Config{Min: t.Min, Max: t.Max,
		Lease: t.Lease.Milliseconds(), Now: t.Now})}}, nil
}
func (inMemory) OpenAdmin() (workerid.Admin, error) { return nil, errors.New("nobody looks") }

type backend struct{ *memstore.Client }

func (backend) Figures(func(figure.Figure)) (c workerid.Condition) { return c }
func (backend) Close() error                                       { return nil }

// another puts more kinds into the table: one without settings of its own, and one with those of a
// compare-and-set.
func another(t *testing.T) {
	before := kindsOfStores
	leases := func(s Settings) workerid.Leases { return inMemory{s} }
	kindsOfStores = append(slices.Clip(kindsOfStores), kind{name: "memory", schemes: []string{"mem"}, leases: leases},
		kind{name: "memcas", schemes: []string{"memcas"}, leases: leases, options: casOptions})
	t.Cleanup(func() { kindsOfStores = before })
}

func settings(url string) Settings {
	return Settings{URL: url,
		Terms: workerid.Terms{Layout: "l", Min: 1, Max: 3, Lease: time.Minute, MaxSkew: time.Second, Now: func() int64 {
			return 1000
		}}}
}

// TestALineOfTheTableIsAStore: whoever asks by URL gets the kind whose scheme that is.
func TestALineOfTheTableIsAStore(t *testing.T) {
	another(t)
	s := settings("mem://here")
	if err := s.Validate(); err != nil || s.ReadSecrets() != nil || s.Interval() != 7*time.Second {
		t.Errorf("%v, %v", err, s.Interval())
	}
	b, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if g, err := b.Acquire(context.Background(), workerid.Request{Owner: "o", Min: 2, Max: 3}); err != nil ||
		g.Worker != 2 || g.Hi != 61_000 {
		t.Errorf("%+v, %v", g, err)
	}
	if _, err := OpenAdmin(s); err == nil || err.Error() != "nobody looks" {
		t.Error(err)
	}
	s = settings("redis://127.0.0.1:1")
	if b, err := Open(s); err != nil || s.Interval() != 5*time.Second {
		t.Errorf("%v, %v", err, s.Interval())
	} else if _, ok := b.(*redis.Store); !ok {
		t.Errorf("%T", b)
	}
	if s.Heartbeat = time.Second; s.Interval() != time.Second {
		t.Errorf("%v", s.Interval())
	}
	LogTo(slog.New(slog.DiscardHandler))
}

// TestSettingsOfOneKindAreRefusedByTheOthers names every one of them.
func TestSettingsOfOneKindAreRefusedByTheOthers(t *testing.T) {
	another(t)
	s := settings("mem://here")
	s.Redis = redis.Options{PasswordFile: "/none", HoldRaus: "raus", Replicas: 2, AllowEviction: true}
	s.CAS = cas.Options{PasswordFile: "/none", CAFile: "/ca", CertFile: "/cert", KeyFile: "/key", Addr: "h:1",
		Boot: func() int64 {
			return 1
		}}
	ofRedis, ofCAS := []string{"PasswordFile", "HoldRaus", "Replicas", "AllowEviction"},
		[]string{"PasswordFile", "CAFile", "CertFile", "KeyFile"}
	for _, c := range []struct {
		url, kind     string
		redis, others []string
	}{{"mem://here", "memory", ofRedis, ofCAS}, {"memcas://here", "memcas", ofRedis, nil},
		{"rediss://here", "Redis", nil, ofCAS[:1]}} {
		found := map[string][]string{}
		s.URL = c.url
		for _, p := range problem.Of(s.Validate()) {
			owners, of, _ := strings.Cut(p.Err.Error(), ", and the store is of another kind: ")
			if of != c.kind {
				t.Errorf("%s: %v", c.url, p)
			}
			found[owners] = append(found[owners], p.Field)
		}
		for owners, want := range map[string][]string{"belongs to Redis": c.redis,
			"belongs to ZooKeeper and etcd": c.others} {
			if !slices.Equal(found[owners], want) {
				t.Errorf("%s: %s: %q, want %q", c.url, owners, found[owners], want)
			}
		}
	}
	s.URL, s.Redis.PasswordFile, s.CAS = "redis://h", "", cas.Options{PasswordFile: "/none", Addr: "h:1"}
	if found := problem.Of(s.ReadSecrets()); len(found) != 1 || found[0].Field != "PasswordFile" {
		t.Errorf("the file of -store-password-file is not Redis's: %v", found)
	}
	s.CAS.PasswordFile = ""
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	s.URL, s.Only = "mem://here", "Redis" // by -redis
	if found := problem.Of(s.Validate()); len(found) != 1 || found[0].Field != "URL" {
		t.Errorf("%v", found)
	}
	if _, err := Open(Settings{URL: "nothing"}); err == nil {
		t.Error("opened")
	}
	if b, err := Open(Settings{URL: "redis://a,b"}); err == nil || b != nil { // and no *redis.Store that is nil
		t.Errorf("%v, %v", b, err)
	}
}

// TestURLs: what URLs of stores and of counters mean. No error tells a password.
func TestURLs(t *testing.T) {
	another(t)
	calls := steps.Calls{
		"store": func(url string) string {
			s := settings(url)
			can := "cannot be opened"
			if b, err := Open(s); err == nil {
				_, announces := b.(workerid.Directory)
				can = fmt.Sprint("announces ", announces)
				b.Close()
			}
			return fmt.Sprintf("pool %q, shown as %q, hosts %v\nnewcomers watch for %v, announces %v, compares %v; %s", s.Pool(),
				s.PublicURL(), s.Hosts(), s.Watch(), s.Announces(), s.Compares(), can)
		},
		"counters": func(url, dir string) (string, error) {
			s := Counters{URL: url, Dir: dir}
			strict := kinds.Declared(counter.Sequence("orders"))
			strict.Strict = true
			err := s.Validate()
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("%q: the error tells the password", url)
			}
			for _, p := range problem.Of(err) {
				if p.Field != "URL" {
					t.Errorf("%q: the problem is that of %q", url, p.Field)
				}
			}
			if s.Nowhere() || err != nil && !strings.HasPrefix(url, "file://") {
				_, cannot := s.Open()
				return fmt.Sprintf("nowhere %v; opened: %v", s.Nowhere(), cannot), err
			}
			return fmt.Sprint("strict order: ", s.CheckDefinition(strict)), err
		},
	}
	script.Run(t, "testdata/urls.txt", func(t *testing.T, play func(script.Do)) {
		play(func(words []string) string { return calls.Do(t, words) })
	})
}

// TestRedisWantsACertificate: every setting that takes a URL of Redis can name the files of TLS in it, and -store has
// flags for them too.
func TestRedisWantsACertificate(t *testing.T) {
	server := redistest.StartTLS(t)
	url := "rediss://" + server.Addr + "/0?ns=x"
	byFlag := settings(url)
	byFlag.CAS = cas.Options{CAFile: server.Cert, CertFile: server.Cert, KeyFile: server.Key}
	byURL := settings(url + "&" + server.Query())
	byURL.Now, byFlag.Now = nil, nil
	for _, s := range []Settings{settings(url + "&ca=" + server.Cert), byURL, byFlag} {
		if err := errors.Join(s.Validate(), s.ReadSecrets()); err != nil {
			t.Fatal(err)
		}
		admin, err := OpenAdmin(s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = admin.List(t.Context())
		admin.Close()
		want := "not initialised"
		if !strings.Contains(s.URL, "cert=") && s.CAS.CertFile == "" {
			want = "certificate required"
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", s.URL, err, want)
		}
	}
	c := Counters{URL: byURL.URL, Operator: true}
	if err := errors.Join(c.Validate(), c.ReadSecrets()); err != nil {
		t.Fatal(err)
	}
	sequences, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer sequences.Close()
	if all, err := sequences.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// A human waits for a slow etcd for longer than a daemon, whose default is 2 s.
func TestHumansWaitLonger(t *testing.T) {
	const url = "etcd://127.0.0.1:2379"
	if human := sequencesOfEtcd(Counters{URL: url, Operator: true}).Timeout; human <= 2*time.Second {
		t.Error("a human waits for", human)
	}
	if daemon := sequencesOfEtcd(Counters{URL: url}).Timeout; daemon != 0 {
		t.Error("a daemon waits for", daemon)
	}
}
