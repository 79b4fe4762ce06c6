package redis

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// All daemons need the same replicas: whoever begins the namespace says how many, until an operator
// changes it, also under daemons that run.
func TestReplicasAreRecorded(t *testing.T) {
	server := redistest.Start(t, durable...)
	server.Replica()
	url := server.URL()
	at := func(query string, operator bool) *Store { return open(t, Config{URL: url + query, Operator: operator}) }
	if _, err := at("", true).SetReplicas(bg, 1); !errors.Is(err, counter.ErrUnknown) {
		t.Errorf("of an empty namespace: %v", err)
	}
	first := at("&replicas=1", true)
	redistest.Until(t, "the definition is safe", func() bool {
		_, err := first.Define(bg, counter.Sequence("orders"))
		return err == nil
	})
	one, none := at("&replicas=1", false), at("", false)
	redistest.Until(t, "a grant is confirmed", func() bool { return reserve(one, 1) == nil })
	differs := func(err error, says ...string) {
		t.Helper()
		want(t, "with another number", err, ErrDiffers)
		for _, text := range says {
			if err != nil && !strings.Contains(err.Error(), text) {
				t.Errorf("%v does not say %q", err, text)
			}
		}
		if errors.Is(err, counter.ErrUnavailable) {
			t.Errorf("a daemon would wait for it: %v", err)
		}
	}
	_, err := none.List(bg)
	differs(err, "has replicas=1", "here replicas=0", "name replicas 0")
	_, err = none.Define(bg, counter.Sequence("orders"))
	differs(err)
	differs(reserve(none, 1))
	_, err = at("&replicas=2", true).Raise(bg, "orders", 100) // an operator who says another one
	differs(err, "has replicas=1", "here replicas=2")
	if _, err := at("", true).Raise(bg, "orders", 100); err != nil { // who says nothing
		t.Error(err)
	}

	on, values, err := one.readOnce(t) // before the change
	if err != nil {
		t.Fatal(err)
	}
	if before, err := first.SetReplicas(bg, 0); err != nil || before != 1 {
		t.Fatalf("%d, %v", before, err)
	}
	one.wire.Turn <- struct{}{}
	ok, _, err := one.write(on, "orders", values, "nonsense", false, 0)
	<-one.wire.Turn
	if ok || err != nil {
		t.Errorf("a write that was read before the change: %v, %v", ok, err)
	}
	differs(reserve(one, 1), "has replicas=0", "here replicas=1")
	want(t, "with the new number", reserve(none, 1), nil)

	if _, err = first.SetReplicas(bg, 2); !errors.Is(err, ErrUnconfirmed) { // two must have it, and there is one
		t.Errorf("with too few replicas: %v", err)
	}
	if _, err = first.SetReplicas(bg, 1); err != nil {
		t.Error(err)
	}
	server.Do("HSET", one.key, "replicas", "many")
	if err := reserve(one, 1); err == nil || !strings.Contains(err.Error(), "name replicas K") {
		t.Error(err)
	}
	if _, err = first.SetReplicas(bg, 1); err != nil {
		t.Error(err)
	}
	want(t, "mended", reserve(one, 1), nil)
	server.Replica()
	err = reserve(one, 1)
	want(t, "with one more than are recorded", err, ErrReplicas)
	want(t, "with one more than are recorded", err, counter.ErrUnavailable)
}

// Since Redis 7.2 WAITAOF tells whether the disk has a definition. Where the server is older, a proxy
// answers that one command.
func TestWAITAOF(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	proxy := redistest.NewProxy(t, server.Addr())
	answer := &atomic.Value{}
	answer.Store("*2\r\n:0\r\n:0\r\n")
	asked := &atomic.Bool{}
	proxy.Rewrite(func(piece []byte) []byte {
		if bytes.HasPrefix(piece, []byte("-ERR unknown command 'WAITAOF'")) ||
			bytes.HasPrefix(piece, []byte("-ERR unknown command `WAITAOF`")) {
			asked.Store(true)
			return []byte(answer.Load().(string))
		}
		return piece
	})
	s := open(t, Config{URL: "redis://" + proxy.Addr() + "/0?ns=aof", Operator: true})
	_, err := s.Define(bg, counter.Sequence("orders"))
	want(t, "define", err, line.ErrNotSafe)
	if err == nil || !strings.Contains(err.Error(), "does not keep up") || !errors.Is(err, counter.ErrUnavailable) {
		t.Error(err)
	}
	want(t, "reserve", reserve(s, 1), line.ErrNotSafe)
	if asked.Load() {
		for _, nonsense := range []string{"*0\r\n", "*1\r\n$1\r\n1\r\n"} {
			answer.Store(nonsense)
			want(t, nonsense, reserve(s, 1), line.ErrNotSafe)
		}
		answer.Store("-ERR out of order\r\n")
		if err := reserve(s, 1); err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Error(err)
		}
	}
	answer.Store("*2\r\n:1\r\n:0\r\n")
	server.Do("CONFIG", "SET", "appendfsync", "everysec")
	redistest.Until(t, "the disk has it", func() bool { return reserve(s, 1) == nil })
	t.Logf("the proxy answered: %v", asked.Load())
}
