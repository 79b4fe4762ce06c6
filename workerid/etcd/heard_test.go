package etcd

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// The first answer after half of a lease's life asks for its renewal, and so does a new connection.
// A lease that is gone asks for another one, unless there is one by then.
func TestWhatAsksForARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{ttl: 10 * time.Second, kept: time.Now(), lease: 7, renew: make(chan struct{}, 1),
			log: slog.New(slog.DiscardHandler)}
		asks := func() bool {
			select {
			case <-d.renew:
				return true
			default:
				return false
			}
		}
		time.Sleep(d.ttl / 2)
		if d.heard(nil, etcdlink.Answer{}, nil); asks() {
			t.Error("too early")
		}
		time.Sleep(time.Nanosecond)
		if d.heard(nil, etcdlink.Answer{}, nil); !asks() {
			t.Error("half of its life is over")
		}
		if d.heard(nil, etcdlink.Answer{}, nil); asks() {
			t.Error("another renewal while one is under way")
		}
		d.renewNow() // which fails: there is no connection
		if d.heard(nil, etcdlink.Answer{}, nil); !asks() {
			t.Error("the renewal has failed")
		}
		if d.use(attempt{name: "another", lease: 8}); !asks() || d.lease != 7 {
			t.Errorf("over a new connection it has %d", d.lease)
		}
		if d.gone(6); asks() || d.lease != 7 {
			t.Errorf("an earlier one was gone, and it has %d", d.lease)
		}
		if d.gone(7); !asks() || d.lease != 0 {
			t.Errorf("it is gone, and it has %d", d.lease)
		}
	})
}

// Hosts of two clusters would be two pools with the same worker ids.
func TestAnotherClusterIsToldOf(t *testing.T) {
	var log bytes.Buffer
	d := &driver{log: slog.New(slog.NewTextHandler(&log, nil)), renew: make(chan struct{}, 1)}
	for i, cluster := range []string{"a", "a", "b", "b", "a"} {
		d.heard(&etcdlink.Conn{Endpoint: "http://host:1"}, etcdlink.Answer{Cluster: cluster}, nil)
		if n, want := strings.Count(log.String(), "level=WARN"), []int{0, 0, 1, 1, 2}[i]; n != want || n > 0 &&
			!strings.Contains(log.String(), "cluster=b before=a host=http://host:1") {
			t.Errorf("%d warnings at answer %d: %s", n, i, log.String())
		}
	}
}
