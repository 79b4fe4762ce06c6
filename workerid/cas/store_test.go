package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// A holder is a Store in a bubble, and what it holds.
type holder struct {
	*world
	*cas.Store
	tally *tally
	held  []workerid.Grant
}

// beats extends what is held so often, a second apart. It says how many commits that took, and the last error.
func (h *holder) beats(n int) (said string, err error) {
	before := h.tally.asked["write"]
	for range n {
		results, e := h.Extend(ctx, h.held)
		if err = e; err == nil {
			err = results[0].Err
		}
		time.Sleep(time.Second) // of the bubble
		synctest.Wait()
	}
	return fmt.Sprintf("%d commits", h.tally.asked["write"]-before), err
}

// acquire asks until the pool was watched for long enough.
func (h *holder) acquire() error {
	for {
		g, err := h.Acquire(ctx, workerid.Request{Owner: "a", Max: 5})
		if !errors.Is(err, workerid.ErrNoneYet) {
			h.held = append(h.held, g)
			return err
		}
		time.Sleep(time.Second)
	}
}

// figures are all that are not Info, by name, and the condition.
func (h *holder) figures() string {
	var b strings.Builder
	c := h.Figures(func(f figure.Figure) { fmt.Fprintf(&b, "%s: %v\n", f.Name(), f.Value) })
	return b.String() + fmt.Sprintf("%+v", c)
}

// TestStore: what becomes of a Store between its calls. Beside the calls of a Store, "asked" and "took" are about those
// of its Driver.
func TestStore(t *testing.T) {
	steps.Run(t, "testdata/store.txt", func(t *testing.T) steps.Calls {
		began := time.Now()
		passed := func() int64 { return time.Since(began).Milliseconds() }
		h := &holder{world: newWorld(t), tally: newTally()}
		h.server = memcas.NewServer(passed, lease/2)
		stranger := &memcas.Driver{Server: h.server}
		t.Cleanup(func() { h.Close() })
		return steps.Calls{
			"init": func() { h.init(0, 5) },
			"floor": func(ahead int64) {
				m := h.server.Meta()
				m.Floor = start + passed() + ahead
				h.server.SetMeta(m)
			},
			"open": func() (err error) {
				c := h.config(h.terms(0, 5))
				c.Driver = hooked(h.server, h.tally.around)
				c.Now = func() int64 { return start + passed() }
				c.Boot = func() int64 { return int64(time.Since(began)) }
				h.Store, err = cas.Open(c)
				return err
			},
			"close":   func() error { return h.Close() },
			"acquire": h.acquire,
			// ask asks once
			"ask": func() error {
				_, err := h.Acquire(ctx, workerid.Request{Owner: "a", Max: 5})
				return err
			},
			"beats":    h.beats,
			"figures":  h.figures,
			"announce": func(name, text string) error { return h.Announce(ctx, name, text) },
			"announce-long": func(name, text int) error {
				return h.Announce(ctx, strings.Repeat("n", name), strings.Repeat("x", text))
			},
			"peers": func() (string, error) {
				all, err := h.Peers(ctx)
				return fmt.Sprint(all), err
			},
			// others: what others read
			"others": func() (string, error) {
				all, err := stranger.Peers(ctx, h.server.Dial())
				return fmt.Sprint(all), err
			},
			"others-publish": func(name, text string) error { return stranger.Publish(ctx, h.server.Dial(), name, text) },
			// operator releases the first worker id that is held
			"operator-releases": func() error {
				_, err := h.admin(h.terms(0, 5)).Release(ctx, h.held[0].Worker)
				return err
			},
			"pass":   time.Sleep,
			"expire": func() { h.server.Expire() },
			"away":   func(on bool) { h.tally.down.Store(on) },
			"asked":  func(what ...string) int { return h.tally.asked[strings.Join(what, " ")] },
			"limits": func() string { return fmt.Sprint(h.tally.limits) },
		}
	})
}

// A daemon that has a window may not read for longer than a call takes: it would miss that the store has forgotten it.
func TestWhoMayReadForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began, tally := newWorld(t), time.Now(), newTally()
		clock := func() int64 { return time.Since(began).Milliseconds() }
		w.server = memcas.NewServer(clock, lease/2)
		terms := w.terms(0, 3)
		terms.Now = func() int64 { return time.Now().UnixMilli() }
		if _, err := w.admin(terms).Init(ctx, workerid.InitNew); err != nil {
			t.Fatal(err)
		}
		c := w.config(terms)
		c.Driver = hooked(w.server, tally.around)
		c.Boot = func() int64 { return int64(time.Since(began)) }
		c.Reading = time.Minute
		s, err := cas.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		reads := func(who string, want, after time.Duration, call func() error) {
			t.Helper()
			tally.limit("read")
			time.Sleep(after)
			call()
			if got := tally.limit("read"); got != want {
				t.Errorf("%s may read for %v, not %v", who, got, want)
			}
		}
		var held []workerid.Grant
		acquire := func(owner string) func() error {
			return func() error {
				g, err := s.Acquire(ctx, workerid.Request{Owner: owner, Max: 3})
				if err == nil {
					held = append(held, g)
				}
				return err
			}
		}
		extend := func() error {
			_, err := s.Extend(ctx, held)
			return err
		}
		end := time.Duration(lease+epsilon) * time.Millisecond
		reads("a newcomer", time.Minute, 0, acquire("a"))
		reads("a newcomer after its watch", time.Minute, 5*time.Second, acquire("a"))
		w.server.Break()
		reads("a newcomer over another connection", time.Minute, 0, acquire("a"))
		reads("the same after its watch", time.Minute, 5*time.Second, acquire("a"))
		reads("the next call", 0, time.Second, acquire("a"))
		reads("another lane", 0, time.Second, acquire("b"))
		if len(held) != 2 {
			t.Errorf("granted %+v; what was read is not for all", held)
		}
		reads("a third lane", cas.DefaultTimeout, 17*time.Second, acquire("c"))
		reads("a daemon that comes back", cas.DefaultTimeout, 5*time.Second, extend)
		reads("one whose windows have just ended", cas.DefaultTimeout, end+2*time.Second, extend)
		reads("one whose windows are over", time.Minute, end+5*time.Second, extend)
		for _, g := range held {
			if _, err := w.admin(terms).Release(ctx, g.Worker); err != nil {
				t.Fatal(err)
			}
		}
		extend()
		reads("one that has lost them", cas.DefaultTimeout, time.Second, acquire("d"))
		operator, err := cas.OpenAdmin(c)
		if err != nil {
			t.Fatal(err)
		}
		reads("an operator", time.Minute, 0, func() error {
			_, err := operator.List(ctx)
			return err
		})
	})
}

// A Store that is closed while it reads for long does not wait for the end of that.
func TestCloseEndsALongReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := newWorld(t), time.Now()
		w.init(0, 3)
		c := w.config(w.terms(0, 3))
		c.Driver = hooked(w.server, func(ctx context.Context, what string, call func() error) error {
			if what == "read" {
				<-ctx.Done()
				return ctx.Err()
			}
			return call()
		})
		c.Reading = time.Minute
		s, err := cas.Open(c)
		if err != nil {
			t.Fatal(err)
		}
		go s.Acquire(ctx, workerid.Request{Owner: "a", Max: 3})
		synctest.Wait()
		if err := s.Close(); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
