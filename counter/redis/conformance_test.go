package redis

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

func TestConformance(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	countertest.Run(t, func(t *testing.T) countertest.Open {
		c := Config{URL: "redis://" + s.Addr() + "/0?ns=" + redistest.Namespace(t), Operator: true, anyMax: true}
		return func(t *testing.T) (counter.Store, counter.Admin) {
			return open(t, c), open(t, c)
		}
	})
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
