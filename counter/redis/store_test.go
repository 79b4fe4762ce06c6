package redis

import (
	"errors"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func want(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func reserve(s *Store, n uint64) error {
	_, err := s.Reserve(bg, "orders", n)
	return err
}

// Between the read and the write of a call another server became master, or another daemon wrote.
func TestWriteComparesRecordAndHistory(t *testing.T) {
	r := redistest.Start(t, durable...)
	s := open(t, Config{URL: r.URL(), Operator: true})
	if _, err := s.Define(bg, counter.Sequence("orders")); err != nil {
		t.Fatal(err)
	}
	on, values, err := s.readOnce(t)
	if err != nil {
		t.Fatal(err)
	}
	other := on
	other.History = "another"
	for what, c := range map[string]struct {
		on  server
		old string
	}{"another history": {other, values}, "another record": {on, values + "x"}, "no record": {on, ""}} {
		s.wire.Turn <- struct{}{}
		ok, _, err := s.write(c.on, "orders", c.old, "nonsense", false, 0)
		<-s.wire.Turn
		if ok || err != nil {
			t.Errorf("%s: written %v, %v", what, ok, err)
		}
	}
	r.Do("HSET", s.key, "replicas", 1) // by an operator
	s.wire.Turn <- struct{}{}
	ok, _, err := s.write(on, "orders", values, "nonsense", false, 0)
	<-s.wire.Turn
	if ok || err != nil {
		t.Errorf("another number of replicas: written %v, %v", ok, err)
	}
	r.Do("HDEL", s.key, "replicas")
	want(t, "reserve", reserve(s, 1), nil)
}

func (s *Store) readOnce(t *testing.T) (server, string, error) {
	s.wire.Turn <- struct{}{}
	defer func() { <-s.wire.Turn }()
	on, values, err := s.read("=orders")
	return on, values[0].text, err
}
