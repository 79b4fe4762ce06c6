package etcd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// patient is a timeout that only a broken etcd meets, also on a busy machine.
const patient = time.Minute

// open opens a Store.
func open(t *testing.T, url string, timeout time.Duration) *etcd.Store {
	t.Helper()
	s, err := etcd.Open(etcd.Config{URL: url, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	newOpen := func(t *testing.T) countertest.Open {
		url := etcdtest.URL(t, m)
		return func(t *testing.T) (counter.Store, counter.Admin) {
			s := open(t, url, patient)
			return s, s
		}
	}
	countertest.Run(t, newOpen)
	countertest.RunTimestamps(t, newOpen)
}

func TestADamagedRecord(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	for _, c := range []struct {
		damage string
		test   func(*testing.T, countertest.Open, func(name string))
		text   func(t *testing.T) string
	}{
		{"garbage", countertest.RunDamaged, func(*testing.T) string { return `{"version":1,"next":5}` }},
		{"of another sequence", countertest.RunDamaged, func(t *testing.T) string {
			return m.Get("/katsubushi/" + etcdtest.Namespace(t) + "/seq/items")
		}},
		{"floor above next", countertest.RunDamaged, func(t *testing.T) string {
			text := m.Get("/katsubushi/" + etcdtest.Namespace(t) + "/seq/orders")
			return strings.Replace(text, `"floor":0`, `"floor":99`, 1)
		}},
		{"later version", countertest.RunUnusable, func(*testing.T) string { return `{"version":2}` }},
	} {
		t.Run(c.damage, func(t *testing.T) {
			url := etcdtest.URL(t, m)
			open := func(t *testing.T) (counter.Store, counter.Admin) {
				s := open(t, url, patient)
				return s, s
			}
			c.test(t, open, func(name string) {
				m.Put("/katsubushi/"+etcdtest.Namespace(t)+"/seq/"+name, c.text(t))
			})
		})
	}
}
