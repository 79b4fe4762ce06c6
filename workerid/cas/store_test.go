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
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// A holder is a Store in a bubble, and what it holds.
type holder struct {
	*world
	*cas.Store
	tally  *tally
	opened cas.Config
	held   []workerid.Grant
}

func (h *holder) ask(lane ...string) error {
	g, err := h.Acquire(ctx, workerid.Request{Owner: append(lane, "a")[0], Max: 5})
	if err == nil && len(lane) > 0 {
		h.held = append(h.held, g)
	}
	return err
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
		h.wrong = began.UnixMilli() - start // the bubble's clock
		stranger := &memcas.Driver{Server: h.server}
		t.Cleanup(func() { h.Close() })
		return steps.Calls{
			"init": func() { h.init(0, 5) },
			"floor": func(ahead int64) {
				m := h.server.Meta()
				m.Floor = began.UnixMilli() + passed() + ahead
				h.server.SetMeta(m)
			},
			// open [1m]: and for how long it may read
			"open": func(reading ...time.Duration) (err error) {
				c := h.config(h.terms(0, 5))
				c.Driver = hooked(h.server, h.tally.around)
				c.Now = func() int64 { return began.UnixMilli() + passed() }
				c.Boot = func() int64 { return int64(time.Since(began)) }
				c.Reading = append(reading, 0)[0]
				h.opened = c
				h.Store, err = cas.Open(c)
				return err
			},
			"close": func() (string, error) {
				began := time.Now()
				err := h.Close()
				return strings.Trim(time.Since(began).String(), "0s"), err
			},
			"acquire": h.acquire,
			// ask [LANE] asks once, as a lane that keeps what it is granted, if it has a name; begin-to-ask does not wait
			"ask":          h.ask,
			"begin-to-ask": func() { go h.ask() },
			// may-read: for how long what was read last might take, if anything was
			"may-read":   func() time.Duration { return h.tally.limit("read") },
			"reads-hang": func() { h.tally.hangs.Store(true) },
			"break":      func() { h.server.Break() },
			"operator-lists": func() error {
				a, err := cas.OpenAdmin(h.opened)
				if err == nil {
					_, err = a.List(ctx)
				}
				return err
			},
			"beats": h.beats,
			// extend extends what is held once
			"extend": func() (any, error) {
				results, err := h.Extend(ctx, h.held)
				for _, r := range results {
					err = errors.Join(err, r.Err)
				}
				return nil, err
			},
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
			"operator-releases-all": func() (err error) {
				for _, g := range h.held {
					_, failed := h.admin(h.terms(0, 5)).Release(ctx, g.Worker)
					err = errors.Join(err, failed)
				}
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
