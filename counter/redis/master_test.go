package redis

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// with lets a store and its servers go by one clock, which only the test moves.
func (s *Store) with(now *int64) *Store {
	s.c.now = func() int64 { return *now }
	s.prepare = func(script string, args []string) (string, []string) {
		return fakeServer + script, append(append([]string(nil), args...), "", strconv.FormatInt(*now, 10))
	}
	return s
}

// define records a sequence. A replica that is new may take a while to confirm it.
func define(t *testing.T, s *Store, d counter.Definition) {
	t.Helper()
	redistest.Until(t, "the definition is safe", func() bool {
		_, err := s.Define(bg, d)
		return err == nil
	})
}

// confirmed is a block. A replica that is busy may need several calls, and gets no gaps from them.
func confirmed(t *testing.T, s *Store, n uint64) (b counter.Block) {
	t.Helper()
	redistest.Until(t, "there is a block", func() (ok bool) {
		var err error
		b, err = s.Reserve(bg, "orders", n)
		return err == nil
	})
	return b
}

// recorded is a word of the record of a sequence, as a server has it.
func recorded(t *testing.T, s *redistest.Server, word string) string {
	text := fmt.Sprint(s.Do("HGET", redistest.Namespace(t)+":sequences", "=orders"))
	_, text, _ = strings.Cut(text, " "+word+"=")
	text, _, _ = strings.Cut(text, " ")
	return text
}

// An operator has the Sentinels fail over. They make the old master a replica some seconds later. A daemon
// that has stayed there and one that starts now ask for all that they can get.
func TestAnOrdinaryFailOver(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, durable...)
	replica := master.Replica()
	sentinel := redistest.Sentinels(t, 1, 1, master.Addr())[0]
	url := "redis+sentinel://" + sentinel.Addr() + "/main/0?ns=" + redistest.Namespace(t) + "&replicas=1"
	now := wallClock()
	plain := open(t, Config{URL: master.URL() + "&replicas=1", Operator: true}).with(&now)
	d := counter.Sequence("orders")
	d.Rate = 1000
	define(t, plain, d)
	stayed, began := open(t, Config{URL: url}).with(&now), open(t, Config{URL: url}).with(&now)
	redistest.Until(t, "there is a block", func() bool { return reserve(stayed, 10) == nil })

	redistest.Until(t, "it fails over", func() bool {
		_, err := sentinel.Ask("SENTINEL", "FAILOVER", "main")
		return err == nil
	})
	redistest.Until(t, "the Sentinel says so", func() bool {
		addr, err := sentinel.Ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
		return err == nil && strings.HasSuffix(addr, strconv.Itoa(replica.Port))
	})
	granted, twice, values := 0, 0, map[uint64]bool{}
	ask := func() {
		now += 1000
		for _, s := range []*Store{stayed, began} {
			b, err := s.Reserve(bg, "orders", 1_000_000)
			for v := b.Lo; err == nil && v <= b.Hi; v++ {
				if granted++; values[v] {
					twice++
				}
				values[v] = true
			}
		}
	}
	for range 10 {
		ask()
	}
	t.Logf("%d values, %d of them twice; the old master is a %s", granted, twice, master.Info("role"))
	master.Demote(replica) // as the Sentinels will
	redistest.Until(t, "there are values again", func() bool {
		ask()
		return granted > 0
	})
	if twice > 0 {
		t.Errorf("%d of %d values came twice", twice, granted)
	}
}

// The old master is cut off, and goes on as one, whether it has noticed that it has no replica or not. A
// daemon that reserves, and one that only asks for changes, go to the new one, though nothing closes their
// connections. The time that a loss costs passes while the new one has no replica yet.
func TestTheOldMasterIsLeft(t *testing.T) {
	t.Parallel()
	for _, notices := range []bool{true, false} {
		t.Run(fmt.Sprint("notices ", notices), func(t *testing.T) {
			t.Parallel()
			leaveTheOldMaster(t, notices)
		})
	}
}

func leaveTheOldMaster(t *testing.T, notices bool) {
	server := redistest.Start(t, durable...)
	front, replica := redistest.NewProxy(t, server.Addr()), server.Replica()
	url := "redis://" + front.Addr() + "/0?ns=" + redistest.Namespace(t) + "&replicas=1"
	now := wallClock()
	operator := open(t, Config{URL: url, Operator: true}).with(&now)
	busy, idle := open(t, Config{URL: url}).with(&now), open(t, Config{URL: url}).with(&now)
	define(t, operator, counter.Sequence("orders"))
	confirmed(t, busy, 100)
	since, _, err := idle.Changes(bg, "")
	if err != nil {
		t.Fatal(err)
	}
	replica.Promote()
	server.Until("the old master is alone", func() bool { return server.Info("connected_slaves") == "0" })
	if !notices {
		server.Replica().Pause() // it is listed as before
	}
	front.Retarget(replica.Addr()) // new connections only
	before := recorded(t, replica, "history")

	redistest.Until(t, "the new master has noticed the loss", func() bool {
		if reserve(busy, 100) == nil {
			t.Error("a block was granted by a master without its replica")
		}
		return recorded(t, replica, "history") != before
	})
	now += line.Epsilon.Milliseconds() + 1000
	replica.Replica()
	redistest.Until(t, "there is a block", func() bool { return reserve(busy, 100) == nil })
	if !notices {
		return // and nor does who only reads
	}
	raising := open(t, Config{URL: url, Operator: true}).with(&now)
	redistest.Until(t, "it is raised", func() bool { return raise(raising, 1e9) == nil })
	redistest.Until(t, "an idle daemon learns of it", func() bool {
		_, records, err := idle.Changes(bg, since)
		return err == nil && len(records) > 0 && records[0].Floor == 1e9
	})
}

func raise(s *Store, atLeast uint64) error {
	_, err := s.Raise(bg, "orders", atLeast)
	return err
}
