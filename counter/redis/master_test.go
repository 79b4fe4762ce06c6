package redis

import (
	"errors"
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

// needs records how many replicas must have a grant.
func needs(t *testing.T, s *Store, n int) {
	t.Helper()
	redistest.Until(t, "it is recorded", func() bool {
		_, err := s.SetReplicas(bg, n)
		return err == nil
	})
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

// repair is what an error tells operators to do.
const repair = "`katsubushi name replicas K -counters URL`"

// Sentinels and clusters need replicas=K. An operator gets along without it, to look, and to record it in a
// namespace that has none, and is told how.
func TestSentinelsNeedReplicas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url string
		ok  bool
	}{
		{"redis+sentinel://h/main", false},
		{"rediss+sentinel://h/main/0?ns=x&replicas=0", false},
		{"rediscluster://h", false},
		{"redisclusters://h?replicas=0", false},
		{"redis+sentinel://h/main?replicas=1", true},
		{"rediscluster://h?replicas=2", true},
		{"redis://h", true},
		{"rediss://h?replicas=0", true},
		{"unix:///s", true},
	} {
		err := Config{URL: c.url}.Validate()
		told := errors.Is(err, ErrNoReplicas) && strings.Contains(err.Error(), repair)
		if c.ok != (err == nil) || !c.ok && !told {
			t.Errorf("%s: %v", c.url, err)
		}
		if err := (Config{URL: c.url, Operator: true}).Validate(); err != nil {
			t.Errorf("%s, an operator: %v", c.url, err)
		}
	}

	master := redistest.Start(t, durable...)
	replica := master.Replica()
	sentinel := redistest.Sentinels(t, 1, 1, master.Addr())[0].Addr()
	at := func(query string, operator bool) *Store {
		url := "redis+sentinel://" + sentinel + "/main/0?ns=" + redistest.Namespace(t) + query
		return open(t, Config{URL: url, Operator: operator})
	}
	refused := func(err error, says string) {
		t.Helper()
		want(t, says, err, ErrNoReplicas)
		if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, counter.ErrUnavailable) {
			t.Errorf("%v does not say %q, or a daemon would wait for it", err, says)
		}
	}
	operator, daemon := at("", true), at("&replicas=1", false)
	_, err := operator.Define(bg, counter.Sequence("orders"))
	refused(err, "in the URL")
	plain := open(t, Config{URL: master.URL(), Operator: true}) // the release before let Sentinels do this
	define(t, plain, counter.Sequence("orders"))

	err = reserve(daemon, 1)
	want(t, "of a daemon", err, ErrDiffers)
	if err == nil || !strings.Contains(err.Error(), "`katsubushi name replicas 1`") {
		t.Error(err)
	}
	if list, err := operator.List(bg); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	_, err = operator.Raise(bg, "orders", 100)
	refused(err, repair)
	_, err = operator.SetReplicas(bg, 0)
	refused(err, "1 or more")
	needs(t, operator, 1)
	confirmed(t, daemon, 1)
	redistest.Until(t, "it is raised", func() bool { return raise(operator, 100) == nil })
	if floor := recorded(t, replica, "floor"); floor != "100" {
		t.Errorf("the replica has the floor %q", floor)
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

// A replica that is away costs no values, however often daemons ask: whether the master knows it, or not yet.
// Nothing is written that would not be confirmed, once it knows.
func TestAReplicaThatIsAwayCostsNoValues(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	server.Replica()
	replica := server.Replica()
	s := open(t, Config{URL: server.URL() + "&replicas=2", Operator: true})
	define(t, s, counter.Sequence("orders"))
	confirmed(t, s, 100)
	token := func() string { return recorded(t, server, "token") }
	alone := func() {
		server.Until("the master knows", func() bool { return server.Info("connected_slaves") == "1" })
	}

	replica.Pause()
	for range 3 {
		want(t, "one stands still", reserve(s, 10_000), ErrUnconfirmed)
	}
	err := raise(s, 50)
	want(t, "raise, and one stands still", err, line.ErrNotSafe)
	if floor := recorded(t, server, "floor"); floor != "50" || !strings.Contains(err.Error(), "recorded on the master") {
		t.Errorf("the floor is %s, and the operator is told: %v", floor, err)
	}
	replica.Kill()
	alone()
	before := token()
	want(t, "the raise is not safe", reserve(s, 10_000), line.ErrNotSafe)
	if token() != before {
		t.Error("the record was written, and only one replica is connected")
	}
	replica.Launch()
	redistest.Until(t, "the raise is safe", func() bool { return raise(s, 50) == nil })

	b := confirmed(t, s, 10)
	if b.Lo != 101 {
		t.Fatalf("%+v; want values from 101 on", b)
	}
	replica.Kill()
	alone()
	for range 25 {
		want(t, "one is away", reserve(s, 10_000), ErrUnconfirmed)
	}
	want(t, "raise, and one is away", raise(s, 1e6), ErrUnconfirmed)
	_, err = s.Define(bg, counter.Sequence("second"))
	want(t, "define, and one is away", err, ErrUnconfirmed)
	_, err = s.SetReplicas(bg, 3)
	want(t, "three replicas, and one is there", err, ErrUnconfirmed)
	there := fmt.Sprint(server.Do("HMGET", s.key, "=second", "replicas"))
	if there != "[<nil> 2]" || token() != b.Token {
		t.Errorf("something was written: %v", there)
	}
	want(t, "return, and one is away", s.Return(bg, "orders", b, 106), nil)
	replica.Launch()
	redistest.Until(t, "there is a block", func() bool { return reserve(s, 1) == nil })
	if next, floor := recorded(t, server, "next"), recorded(t, server, "floor"); next != "107" || floor != "50" {
		t.Errorf("next=%s floor=%s, want 107 and 50", next, floor)
	}
}

// A block that was taken back was never this process's, also if the line had jumped before: the master to
// come may be right to say that less is granted.
func TestWhatWasTakenBackIsNotRemembered(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	replica := server.Replica()
	now := wallClock()
	s := open(t, Config{URL: server.URL() + "&replicas=1", Operator: true}).with(&now)
	define(t, s, counter.Sequence("orders"))
	confirmed(t, s, 100)
	server.Kill()
	server.Launch() // another history
	redistest.Until(t, "the line has jumped", func() bool { return errors.Is(reserve(s, 1), line.ErrCeiling) })
	server.Until("the replica is back", func() bool { return server.Info("connected_slaves") == "1" })
	now += line.Epsilon.Milliseconds() + 1000
	replica.Pause()
	redistest.Until(t, "it is not confirmed", func() bool {
		err := reserve(s, 1)
		return err != nil && strings.Contains(err.Error(), "have what was written")
	})
	next := recorded(t, server, "next")
	text := fmt.Sprint(server.Do("HGET", redistest.Namespace(t)+":sequences", "=orders"))
	server.Do("HSET", redistest.Namespace(t)+":sequences", "=orders",
		strings.Replace(text, " next="+next+" ", " next=100 ", 1))
	if err := reserve(s, 1); err == nil || !strings.Contains(err.Error(), "was granted up to 100:") {
		t.Errorf("this process does not remember that it was granted up to 100: %v", err)
	}
}

// A raise of a damaged record looks at the replicas first, as every raise does. A creation that only the master has
// is said to be there, each time that it is repeated.
func TestAReplicaThatIsAwayAtARaise(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	replica := server.Replica(durable...)
	operator := open(t, Config{URL: server.URL() + "&replicas=1", Operator: true})
	define(t, operator, counter.Sequence("orders"))
	define(t, operator, counter.Sequence("items"))
	key := redistest.Namespace(t) + ":sequences"
	server.Do("HSET", key, "=orders", "1 nonsense")
	unsafe := strings.Replace(server.Do("HGET", key, "=items").(string), " safe=true ", " safe=false ", 1)
	server.Do("HSET", key, "=items", unsafe)
	replica.Kill()
	server.Until("the master has noticed", func() bool { return server.Info("connected_slaves") == "0" })
	_, err := operator.Revive(bg, counter.Sequence("orders"), 1000)
	want(t, "a raise of a damaged record", err, ErrUnconfirmed)
	if !strings.Contains(fmt.Sprint(err), "nothing was changed") {
		t.Error(err)
	}
	if now := server.Do("HGET", key, "=orders"); now != "1 nonsense" {
		t.Errorf("it is refused, and the record is %q", now)
	}
	for range 2 {
		_, err := operator.Define(bg, counter.Sequence("items"))
		if !strings.Contains(fmt.Sprint(err), "recorded on the master all the same") {
			t.Errorf("a creation that is repeated: %v", err)
		}
	}
}

// What is not promised of a change depends on what is known of the replicas, and on the disk.
func TestNotPromised(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, durable...)
	operator := func(s *redistest.Server, query string) *Store {
		return open(t, Config{URL: s.URL() + query, Operator: true})
	}
	says := func(s *Store, what ...string) {
		t.Helper()
		text, err := s.NotPromised(bg)
		for _, w := range what {
			if !strings.Contains(text, w) {
				t.Errorf("%q, %v; want %q", text, err, w)
			}
		}
		if err != nil || len(what) == 0 && text != "" {
			t.Errorf("%q, %v; want %q", text, err, what)
		}
	}
	plain := operator(server, "")
	define(t, plain, counter.Sequence("orders"))
	says(plain, "no replica is connected", "a replica that is away now", "replicas=0 in the URL")
	says(operator(server, "&replicas=0"))
	server.Replica()
	second := server.Replica()
	says(operator(server, "&replicas=0"), "are connected (2)", "`katsubushi name replicas 2`")

	sentinel := redistest.Sentinels(t, 1, 2, server.Addr())[0]
	second.Kill()
	server.Until("the master has noticed", func() bool { return server.Info("connected_slaves") == "1" })
	needs(t, plain, 1)
	says(plain)
	url := "redis+sentinel://" + sentinel.Addr() + "/main/0?ns=" + redistest.Namespace(t)
	behind := open(t, Config{URL: url, Operator: true})
	says(behind, "know 2 replicas, and 1 must have this", "SENTINEL RESET", "`katsubushi name replicas 2`")
	sentinel.Do("SENTINEL", "RESET", "main")
	redistest.Until(t, "the Sentinel has forgotten it", func() bool {
		text, err := behind.NotPromised(bg)
		return err == nil && text == ""
	})
	sentinel.Kill()
	says(behind, "whether there are more replicas than 1 is not known")

	forgetful := redistest.Start(t)
	forgetful.Replica()
	s := operator(forgetful, "&replicas=1")
	define(t, s, counter.Sequence("orders"))
	says(s, "no append-only file", "appendonly yes")
}

func raise(s *Store, atLeast uint64) error {
	_, err := s.Raise(bg, "orders", atLeast)
	return err
}
