package cas_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// An idle Store commits once a heartbeat and does nothing else, and does not forget what is due.
func TestAnIdleStoreOnlyExtends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := newWorld(t), time.Now()
		passed := func() int64 { return time.Since(began).Milliseconds() }
		w.server = memcas.NewServer(passed, lease/2)
		w.init(0, 3)
		tally, c := newTally(), w.config(w.terms(0, 3))
		c.Driver = &hooked{memcas.Driver{Server: w.server}, tally.around}
		c.Now = func() int64 { return start + passed() }
		c.Boot = func() int64 { return int64(time.Since(began)) }
		s, err := cas.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var held []workerid.Grant
		beat := func(beats int) (commits int, err error) { // of the heartbeats, and the last one's error
			synctest.Wait()
			before := tally.asked["write"]
			for range beats {
				results, e := s.Extend(ctx, held)
				if err = e; err == nil {
					err = results[0].Err
				}
				time.Sleep(time.Second) // of the bubble
				synctest.Wait()
			}
			return tally.asked["write"] - before, err
		}
		for len(held) == 0 {
			if g, err := s.Acquire(ctx, workerid.Request{Owner: "a", Max: 3}); err == nil {
				held = append(held, g)
			} else if !errors.Is(err, workerid.ErrNoneYet) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := s.Announce(ctx, "a", "here"); err != nil {
			t.Fatal(err)
		}
		beat(2)
		if commits, err := beat(50); commits != 50 || err != nil || tally.asked["read"] > 10 {
			t.Errorf("idle: %d commits in 50 heartbeats, %v", commits, err)
		}
		w.server.Expire()
		beat(3)
		if all, err := s.Peers(ctx); err != nil || all["a"] != "here" {
			t.Errorf("in a new session: %v, %v", all, err)
		}
		if commits, err := beat(50); commits != 50 || err != nil {
			t.Errorf("idle in a new session: %d commits in 50 heartbeats, %v", commits, err)
		}
		if _, err := w.admin(w.terms(0, 3)).Release(ctx, held[0].Worker); err != nil {
			t.Fatal(err)
		}
		if _, err := beat(1); !errors.Is(err, workerid.ErrLost) {
			t.Fatal(err)
		}
		if commits, _ := beat(10); commits < 10 {
			t.Errorf("%d looks in 10 heartbeats at what is left of a lost window", commits)
		}
		for _, what := range []string{"connect", "read", "write", "be present", "be absent", "publish", "list"} {
			if limit := tally.limits[what]; limit != cas.DefaultTimeout {
				t.Errorf("%s may take %v", what, limit)
			}
		}
		for range 2 {
			if err := s.Close(); err != nil || tally.asked["close"] != 1 {
				t.Errorf("%v, closed %d times", err, tally.asked["close"])
			}
		}
		if _, err := s.Peers(ctx); err == nil {
			t.Error("a closed store answers")
		}
	})
}

func TestAStoreDescribesItself(t *testing.T) {
	w := newWorld(t)
	s, err := cas.Open(w.config(w.terms(0, 5)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	fact := func(name string) any {
		t.Helper()
		var value any
		s.Figures(func(f figure.Figure) {
			if f.Name() == "lease_"+name {
				value = f.Value
			}
		})
		if value == nil {
			t.Fatalf("no %s", name)
		}
		return value
	}
	request := workerid.Request{Owner: "a", Min: 0, Max: 5}
	if _, err := s.Acquire(ctx, request); !errors.Is(err, cas.ErrNotInitialised) ||
		!strings.Contains(err.Error(), "/pool/meta") {
		t.Errorf("%v", err)
	}
	if fact("memcas_addr") != "memory" || fact("memcas_epoch") != "" {
		t.Error(fact("memcas_addr"), fact("memcas_epoch"))
	}
	w.init(0, 5)
	m := w.server.Meta()
	m.Floor = w.now() + 7000
	w.server.SetMeta(m)
	if _, err := s.Acquire(ctx, request); !errors.As(err, &cas.Watching{}) {
		t.Errorf("%v", err)
	}
	if left := fact("memcas_watch_left").(time.Duration); left <= 0 || left > 5*time.Second ||
		fact("memcas_epoch") != m.Epoch || fact("memcas_floor_wait") != 7*time.Second {
		t.Errorf("%v, %v, %v", left, fact("memcas_epoch"), fact("memcas_floor_wait"))
	}
	if fact("memcas_clocks") != 0 || fact("memcas_clock_ahead") != time.Duration(0) || fact("memcas_servers") != 1 {
		t.Error("clocks, or servers")
	}
	if c := s.Figures(func(figure.Figure) {}); c != (workerid.Condition{FloorWait: 7 * time.Second}) {
		t.Errorf("%+v", c)
	}
}

// An announcement is made again in a new session, also if the store was away when it was wanted.
func TestAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tally, c := newTally(), w.config(w.terms(0, 5))
		tally.down.Store(true)
		c.Driver = &hooked{memcas.Driver{Server: w.server}, tally.around}
		s, err := cas.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w.init(0, 5)
		peers := func() string {
			all, err := (&memcas.Driver{Server: w.server}).Peers(ctx, w.server.Dial())
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(all)
		}
		if err := s.Announce(ctx, "host-1.a_b", "one"); !errors.Is(err, errLost) {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		tally.down.Store(false)
		time.Sleep(5 * time.Second) // of the bubble
		synctest.Wait()
		if got := peers(); got != "map[host-1.a_b:one]" {
			t.Errorf("after an outage: %s", got)
		}
		w.server.Expire()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := peers(); got != "map[host-1.a_b:one]" {
			t.Errorf("in a new session: %s", got)
		}
		if all, err := s.Peers(ctx); err != nil || fmt.Sprint(all) != "map[host-1.a_b:one]" {
			t.Errorf("%v, %v", all, err)
		}
		if err := s.Announce(ctx, "host-1.a_b", "two"); err != nil || peers() != "map[host-1.a_b:two]" {
			t.Errorf("%v, %s", err, peers())
		}
		stranger := &memcas.Driver{Server: w.server}
		if err := stranger.Publish(ctx, w.server.Dial(), "host-1.a_b", "another's"); err != nil {
			t.Fatal(err)
		}
		if all, err := s.Peers(ctx); err != nil || fmt.Sprint(all) != "map[host-1.a_b:another's]" {
			t.Errorf("%v, %v", all, err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := peers(); got != "map[host-1.a_b:two]" {
			t.Errorf("after somebody wrote over it: %s", got)
		}
		if err := s.Announce(ctx, "host-1.a_b", ""); err != nil || peers() != "map[]" {
			t.Errorf("%v, %s", err, peers())
		}
		for _, name := range []string{"", ".", "..", "a/b", "a b", strings.Repeat("a", 101), "é"} {
			if err := s.Announce(ctx, name, "x"); err == nil {
				t.Errorf("%q", name)
			}
		}
		if err := s.Announce(ctx, "a", strings.Repeat("x", 4097)); err == nil {
			t.Error("a long one")
		}
	})
}
