package etcd_test

import (
	"fmt"
	"testing"
	"time"

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
	places := 0
	newOpen := func(t *testing.T) countertest.Open {
		places++
		url := fmt.Sprint(etcdtest.URL(t, m), "-", places)
		return func(t *testing.T) countertest.Client { return open(t, url, patient) }
	}
	countertest.Run(t, newOpen)
	countertest.RunTimestamps(t, newOpen)
}
