package redis

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// What a daemon may wait for, and what it must not: each error comes from a real server.
func TestWhatMayBeWaitedFor(t *testing.T) {
	server := redistest.Start(t, durable...)
	operator := open(t, Config{URL: server.URL(), Operator: true})
	if _, err := operator.Define(bg, counter.Sequence("orders")); err != nil {
		t.Fatal(err)
	}
	ns := "?ns=" + redistest.Namespace(t)
	refusing := redistest.NewProxy(t, server.Addr())
	refusing.Refuse(true)
	encrypted := redistest.StartTLS(t)
	sentinel := redistest.Sentinels(t, 1, 0, server.Addr())[0].Addr()
	node := redistest.Start(t, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(redistest.FreePort(t)))
	replica := server.Replica()
	stale := server.Replica("--replica-serve-stale-data", "no")
	stale.Do("REPLICAOF", "127.0.0.1", redistest.FreePort(t))
	nobody := "127.0.0.1:" + strconv.Itoa(redistest.FreePort(t))
	server.Do("ACL", "SETUSER", "weak", "on", ">weak", "~*", "+info", "+client|id", "+hello", "+select")

	list := func(c Config) error {
		_, err := open(t, c).List(bg)
		return err
	}
	define := func(s *Store) error {
		_, err := s.Define(bg, counter.Sequence("orders"))
		return err
	}
	check := func(what string, err error, waits bool, contains string) {
		t.Helper()
		if err == nil || errors.Is(err, counter.ErrUnavailable) != waits || !strings.Contains(err.Error(), contains) {
			t.Errorf("%s: %v; waits: %v", what, err, waits)
		}
		if counter.Certain(err) && waits {
			t.Errorf("%s: %v is certain", what, err)
		}
	}
	late := func(err error, waits bool, contains string) bool { // on a busy machine: it is not what Redis would have said
		timeout, ok := errors.AsType[net.Error](err)
		return ok && timeout.Timeout() && (!waits || !strings.Contains(err.Error(), contains))
	}
	for _, c := range []struct {
		what, url string
		waits     bool
		contains  string
	}{
		{"nobody listens", "redis://" + nobody, true, "refused"},
		{"no socket", "unix:///" + t.TempDir() + "/socket", true, "no such file"},
		{"connections are closed", "redis://" + refusing.Addr(), true, ""},
		{"no such host", "redis://katsubushi.invalid", true, "katsubushi.invalid"},
		{"a replica", "redis://" + replica.Addr(), true, "its role is slave"},
		{"a replica without its master", "redis://" + stale.Addr(), true, "MASTERDOWN"},
		{"a node without slots", "rediscluster://" + node.Addr(), true, "no node has the slot"},
		{"no Sentinel", "redis+sentinel://" + nobody + "/main", true, "refused"},
		{"Sentinels of others", "redis+sentinel://" + sentinel + "/other", false, `no master "other"`},
		{"Sentinels of others, and some are away", "redis+sentinel://" + sentinel + "," + nobody + "/other", true,
			`no master "other"`},
		{"a wrong password", "redis://u:p@" + server.Addr(), false, "WRONGPASS"},
		{"no right", "redis://weak:weak@" + server.Addr(), false, "NOPERM"},
		{"a certificate of others", "rediss://" + encrypted.Addr, false, "certificate"},
		{"no certificate of its own", "rediss://" + encrypted.Addr + "/0?ca=" + encrypted.Cert, false,
			"certificate required"},
		{"no TLS there", "rediss://" + server.Addr(), true, "no TLS with"}, // it says nothing
	} {
		db := "/0"
		if strings.HasPrefix(c.url, "redis+") || strings.HasPrefix(c.url, "unix") {
			db = ""
		}
		query := ns
		if strings.Contains(c.url, "?") {
			db, query = "", "&"+ns[1:]
		}
		if strings.HasPrefix(c.url, "redis+") || strings.HasPrefix(c.url, "rediscluster") {
			query += "&replicas=1"
		}
		err := list(Config{URL: c.url + db + query})
		for n := 0; late(err, c.waits, c.contains) && n < 30; n++ {
			err = list(Config{URL: c.url + db + query})
		}
		check(c.what, err, c.waits, c.contains)
	}

	if err := list(Config{URL: "rediss://" + encrypted.Addr + ns + "&" + encrypted.Query(), Operator: true}); err != nil {
		t.Errorf("with certificates: %v", err)
	}

	skew := int64(0)
	skewed := open(t, Config{URL: server.URL(), now: func() int64 { return wallClock() + skew }})
	skew = 10_000
	check("clocks differ", define(skewed), true, "clocks")
	fresh := open(t, Config{URL: server.URL() + "-other"})
	check("an empty namespace", define(fresh), false, "katsubushi name create")
	server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	check("it may evict", list(Config{URL: server.URL()}), false, "noeviction")
	server.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "5")
	check("no writes with so few replicas", reserve(open(t, Config{URL: server.URL()}), 1), true, "NOREPLICAS")
	server.Do("CONFIG", "SET", "min-replicas-to-write", "0")

	server.Do("CONFIG", "SET", "busy-reply-threshold", "1")
	busy := make(chan bool)
	go func() {
		defer close(busy)
		server.Client().Do(bg, "EVAL", "while true do end", 0)
	}()
	server.Until("it is busy", func() bool {
		_, err := server.Ask("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	})
	check("a script runs", list(Config{URL: server.URL()}), true, "BUSY")
	server.Do("SCRIPT", "KILL")
	<-busy

	s := open(t, Config{URL: server.URL()})
	server.Pause()
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	_, err := s.List(ctx)
	check("it stands still", err, true, "")
	server.Resume()
	if err := define(open(t, Config{URL: server.URL()})); err != nil {
		t.Error(err)
	}

	loading := redistest.Start(t)
	loading.Do("DEBUG", "POPULATE", 100_000)
	loading.Do("SAVE")
	loading.Kill()
	conf := filepath.Join(loading.Dir, "redis.conf")
	if err := os.WriteFile(conf, []byte("key-load-delay 1000\nloading-process-events-interval-bytes 1024\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	loading.LaunchOnly()
	loading.Until("it loads its data", func() bool {
		_, err := loading.Ask("PING")
		return err != nil && strings.HasPrefix(err.Error(), "LOADING")
	})
	loads := list(Config{URL: loading.URL()})
	for n := 0; late(loads, true, "LOADING") && n < 10; n++ {
		loads = list(Config{URL: loading.URL()})
	}
	check("it loads its data", loads, true, "LOADING")
}
