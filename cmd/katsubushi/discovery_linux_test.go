package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A watcher sees the announcements of a pool as a client does.
type watcher struct {
	mu     sync.Mutex
	states map[string][]string // by address: ready, not ready, gone, in order
	seen   map[string]announcement.Announcement
}

func watch(t *testing.T, m *etcdtest.Member, ns string) *watcher {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	w := &watcher{states: map[string][]string{}, seen: map[string]announcement.Announcement{}}
	changes := m.Client().Watch(ctx, "/"+ns+"/peers/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	<-changes
	go func() {
		addrs := map[string]string{} // by key
		for r := range changes {
			w.mu.Lock()
			for _, e := range r.Events {
				key, state := string(e.Kv.Key), "gone"
				if e.Type == clientv3.EventTypePut {
					a, err := announcement.Parse(string(e.Kv.Value))
					if err != nil {
						t.Errorf("%s: %v", e.Kv.Value, err)
					}
					if state = "not ready"; a.Ready {
						state = "ready"
					}
					if addrs[key] = a.Addr; a.Addr != "" {
						w.seen[a.Addr] = a
					}
				}
				w.states[addrs[key]] = append(w.states[addrs[key]], state)
			}
			w.mu.Unlock()
		}
	}()
	return w
}

func (w *watcher) saw(addr string) (states []string, last announcement.Announcement) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Compact(slices.Clone(w.states[addr])), w.seen[addr]
}

// TestProcessDiscoveryInEtcd: clients see where daemons are and when they come and leave. A
// daemon whose clock is wrong does not start until it is right. One that finds its worker id with
// another daemon says so, and goes on.
func TestProcessDiscoveryInEtcd(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	ns := etcdtest.Namespace(t)
	url := etcdtest.URL(t, m)
	pool := []string{"-store", url, "-lease=20s", "-max-skew=1s", "-min-worker-id=41", "-max-worker-id=43"}
	poolOf{pool}.init(t)
	w := watch(t, m, ns)
	stranger := start(t, "-worker-id=41-43") // of no pool, with the same worker ids

	a := start(t, append(pool, "-port", freePort(t), "-http-port", freePort(t), "-shutdown-delay=5s")...)
	await(t, "the first daemon is announced as ready", func() bool {
		states, _ := w.saw(a.Addr())
		return slices.Equal(states, []string{"not ready", "ready"})
	})
	_, last := w.saw(a.Addr())
	if len(last.Workers) != 1 || last.TLS || !strings.Contains(last.Fingerprint, "ids=41-43") {
		t.Errorf("announced as %+v", last)
	}
	m.Put("/"+ns+"/peers/by-hand", announcement.Announcement{
		Addr: stranger.Addr(), Workers: []uint64{41, 42, 43}, Ready: true, Fingerprint: last.Fingerprint,
	}.String())
	b := start(t, append(pool, "-http-port", freePort(t))...)
	await(t, "the second daemon is announced as ready", func() bool {
		states, _ := w.saw(b.Addr()) // before, its port was not known, or known a moment before
		return len(states) > 0 && states[len(states)-1] == "ready"
	})
	await(t, "it sees the others, and that one has its worker id", func() bool {
		code, _, text := httpGet(b.HTTP(), "/readyz")
		return statistic(t, b.Addr(), "peers") == 2 && statistic(t, b.Addr(), "peers_alarm_worker_id") == 1 &&
			code == http.StatusOK && strings.HasPrefix(text, "ready\nworker ids: ") &&
			strings.Contains(text, stranger.Addr()+" has 4")
	})
	b.Says(t, "alarm about peers")
	if statistic(t, b.Addr(), "peers_alarm_clock") != 0 {
		t.Error("a wrong alarm")
	}

	late := launchShifted(t, -time.Minute, append(pool, "-http-port", freePort(t))...)
	await(t, "a daemon whose clock is wrong says so", func() bool {
		code, _, text := httpGet(late.HTTP(), "/readyz")
		asked := strings.Contains(text, "clocks: ") && strings.Contains(text, a.Addr()+" by ")
		// where nobody answered within a second, the pool says it
		return code == http.StatusServiceUnavailable && (asked || strings.Contains(text, workerid.ErrSkew.Error()))
	})
	if late.Entry("listening") != nil {
		t.Error("it listens")
	}
	late.step(t, time.Minute)
	late.WaitListening(t)
	await(t, "it is announced as ready", func() bool {
		states, _ := w.saw(late.Addr())
		return slices.Contains(states, "ready")
	})

	a.end(t, syscall.SIGTERM)
	await(t, "the stopped daemon was not ready first, then gone", func() bool {
		states, _ := w.saw(a.Addr())
		return slices.Equal(states, []string{"not ready", "ready", "not ready", "gone"})
	})
}
