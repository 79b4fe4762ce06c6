package redis

import (
	"cmp"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestConformance(t *testing.T) {
	s := redistest.Start(t, durable...)
	for name, refuse := range map[string]bool{"line": false, "refuse": true} {
		definition := func(name string) counter.Definition {
			d := countertest.Odd(name)
			d.RefuseLoss = refuse
			return d
		}
		newOpen := func(t *testing.T) countertest.Open {
			url := "redis://" + s.Addr() + "/0?ns=" + redistest.Namespace(t)
			c := Config{URL: url, Operator: true, anyMax: true}
			return func(t *testing.T) countertest.Client { return open(t, c) }
		}
		t.Run(name, func(t *testing.T) { countertest.RunAs(t, newOpen, definition) })
	}
}

// patient is a limit that only a broken Redis meets, also on a busy machine.
const patient = 5 * time.Minute

func open(t testing.TB, c Config) *Store {
	t.Helper()
	c.limit = cmp.Or(c.limit, patient)
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
