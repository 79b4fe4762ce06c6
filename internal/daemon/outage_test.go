package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// away is a store that can be out of reach.
type away struct {
	granted
	is *atomic.Bool
}

var errAway = errors.New("connection refused")

func (s away) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if s.is.Load() {
		return workerid.Grant{}, errAway
	}
	return s.granted.Acquire(ctx, want)
}

func (s away) Extend(_ context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	if s.is.Load() {
		return nil, errAway
	}
	list := make([]workerid.Result, len(held))
	for i, g := range held {
		g.Lo, g.Hi = g.Hi+1, s.now()+61000
		list[i].Grant = g
	}
	return list, nil
}

// said is what was logged. Any goroutine may use it.
type said struct {
	mu   sync.Mutex
	text []byte
}

func (s *said) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, line...)
	return len(line), nil
}

// take returns what was logged since it was called before.
func (s *said) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.text)
	s.text = nil
	return text
}

// TestTheLogSaysWhenNoIDsAreIssued: at a level that `journalctl -p err` shows, once, and when they are
// issued again at one that -p warning shows, be it at the start or later, and whatever the reason.
func TestTheLogSaysWhenNoIDsAreIssued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		var log said
		c, isAway := testConfig(), new(atomic.Bool)
		isAway.Store(true)
		plain := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: plain}))
		d, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		d.keeper = workerid.NewKeeper(workerid.Config{
			Store: away{granted{d.clock.Now}, isAway}, Lanes: d.issuer, Requests: []workerid.Request{{Min: 5, Max: 5}},
			Now: d.clock.Now, RunAhead: d.c.MaxRunAhead, Heartbeat: 10 * time.Second, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{}, 2)
		go func() {
			d.keeper.Run(ctx)
			ended <- struct{}{}
		}()
		go func() {
			d.clock.Run(ctx, d.issuer.Position, d.c.Log)
			ended <- struct{}{}
		}()
		defer func() {
			cancel()
			<-ended
			<-ended
		}()
		said := func(after time.Duration) string {
			t.Helper()
			log.take()
			time.Sleep(after)
			synctest.Wait()
			return log.take()
		}
		expect := func(what, got string, want ...string) {
			t.Helper()
			if strings.Count(got, "\n") != len(want) {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
			for _, text := range want {
				if !strings.Contains(got, text) {
					t.Errorf("%s: %q, want %s", what, got, text)
				}
			}
		}
		expect("as long as the very first start takes", said(1500*time.Millisecond))
		expect("it starts without a store", said(time.Minute),
			`level=ERROR msg="the port stays closed until ids can be issued" reason="no worker id yet"`)
		isAway.Store(false)
		expect("the store is back", said(time.Minute), `level=WARN msg="ids are issued again" after=1m`)
		close(d.opened)
		isAway.Store(true)
		expect("the store is away, and the window lasts", said(30*time.Second))
		expect("the window has ended", said(time.Minute), `level=ERROR msg="no ids are issued" reason="lease expired `)
		isAway.Store(false)
		expect("the store is back", said(time.Minute), `level=WARN msg="ids are issued again"`)
		if _, err := d.catalog.Batch(t.Context(), nil, 1); err != nil {
			t.Fatal(err)
		}
		isAway.Store(true)
		d.freezing.Lock()
		expect("another process takes over", said(3*time.Minute))
		d.freezing.Unlock()
		d.retired.Store(true)
		expect("it has", said(time.Minute))
		d.retired.Store(false)
		d.stopping.Store(true)
		expect("it stops", said(time.Minute))
		d.stopping.Store(false)
		expect("none of these", said(time.Minute), `level=ERROR msg="no ids are issued"`)
	})
}

// TestAFullRateIsNoOutage: with ticks longer than a client may wait, Ready says for a moment that the ids are
// used up.
func TestAFullRateIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		var log bytes.Buffer
		c := testConfig()
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Layout, _ = generator.LayoutByName("sonyflake") // ticks of 10 ms
		d, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		close(d.opened)
		now := d.clock.Now()
		if err := d.issuer.Publish(0, 1, now, now+60_000); err != nil {
			t.Fatal(err)
		}
		for d.catalog.Ready() == nil {
			d.catalog.Batch(t.Context(), nil, 1)
		}
		refusal := (*issuer.Refusal)(nil)
		if err := d.catalog.Ready(); !errors.As(err, &refusal) || refusal.Reason != issuer.RateExceeded {
			t.Fatal(err)
		}
		if d.lookForOutage(time.Now()); strings.Contains(log.String(), "level=ERROR") {
			t.Error(log.String())
		}
	})
}
