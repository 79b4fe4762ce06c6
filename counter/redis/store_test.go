package redis

import (
	"errors"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
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

// A definition that was lost before anybody was granted anything may be made again.
func TestLostBeforeItWasSafe(t *testing.T) {
	server := redistest.Start(t)
	daemon, operator := open(t, Config{URL: server.URL()}), open(t, Config{URL: server.URL(), Operator: true})
	_, err := operator.Define(bg, counter.Sequence("orders"))
	want(t, "define", err, line.ErrNotSafe)
	want(t, "reserve", reserve(daemon, 1), line.ErrNotSafe)
	if _, _, err := daemon.Changes(bg, ""); err != nil {
		t.Error(err)
	}
	server.Do("FLUSHALL")
	server.Do("CONFIG", "SET", "appendfsync", "always")
	server.Do("CONFIG", "SET", "appendonly", "yes")
	redistest.Until(t, "the definition is safe", func() bool {
		_, err := operator.Define(bg, counter.Sequence("orders"))
		return err == nil
	})
	want(t, "reserve", reserve(daemon, 1), nil)
}

// A definition that a restart would forget does not count, and nothing is granted from it.
func TestADefinitionIsSafeOrNothing(t *testing.T) {
	for name, args := range map[string][]string{
		"no disk": nil, "a disk that is not used": {"--appendfsync", "always"},
		"a disk that is behind": {"--appendonly", "yes", "--appendfsync", "everysec"},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t, args...)
			if strings.Contains(name, "behind") && server.Info("redis_version") >= "7.2" {
				t.Skip("does not apply: WAITAOF tells")
			}
			s := open(t, Config{URL: server.URL(), Operator: true})
			_, err := s.Define(bg, counter.Sequence("orders"))
			want(t, "define", err, line.ErrNotSafe)
			want(t, "reserve", reserve(s, 1), line.ErrNotSafe)
			if errors.Is(err, counter.ErrUnavailable) {
				t.Errorf("a daemon that starts would wait for a setting: %v", err)
			}
			replica := server.Replica()
			replica.Pause()
			err = reserve(s, 1)
			want(t, "with a replica that does not answer", err, line.ErrNotSafe)
			want(t, "with a replica that does not answer", err, counter.ErrUnavailable)
			replica.Resume()
			// which makes another history; its answers may take a while
			redistest.Until(t, "the definition is safe", func() bool { return errors.Is(reserve(s, 1), line.ErrCeiling) })
			_, err = s.Define(bg, counter.Sequence("orders"))
			want(t, "define again", err, nil)
		})
	}
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
	want(t, "reserve", reserve(s, 1), nil)
}

func (s *Store) readOnce(t *testing.T) (server, string, error) {
	s.wire.Turn <- struct{}{}
	defer func() { <-s.wire.Turn }()
	on, values, err := s.read("=orders")
	return on, values[0].text, err
}
