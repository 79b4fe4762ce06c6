package announce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
)

// directory is a store's announcements in memory, and what was called.
type directory struct {
	mu      sync.Mutex
	entries map[string]string
	calls   []string // texts, in order
	err     error
	hang    bool // until the call's time is over
}

func (d *directory) Announce(ctx context.Context, name, text string) error {
	d.mu.Lock()
	hang, err := d.hang, d.err
	d.mu.Unlock()
	if hang {
		<-ctx.Done()
		err = ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, text)
	if err != nil {
		return err
	}
	if d.entries == nil {
		d.entries = map[string]string{}
	}
	if d.entries[name] = text; text == "" {
		delete(d.entries, name)
	}
	return nil
}

func (d *directory) Peers(context.Context) (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.entries), d.err
}

func (d *directory) set(err error, hang bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.hang = err, hang
}

// entry returns the announcement of a name.
func (d *directory) entry(t *testing.T, name string) announcement.Announcement {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	a, err := announcement.Parse(d.entries[name])
	if err != nil {
		t.Errorf("%q: %v", d.entries[name], err)
	}
	return a
}

func (d *directory) called() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.calls)
}

// state is what is true of a daemon.
type state struct {
	mu    sync.Mutex
	a     announcement.Announcement
	looks int // how often it was asked for
}

func (s *state) get() announcement.Announcement {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	return s.a
}

func (s *state) looked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks
}

func (s *state) set(ready bool, workers ...uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.a.Ready, s.a.Workers = ready, workers
}

// announcing runs an Announcer of a daemon that is not ready.
func announcing(t *testing.T, change ...func(*AnnouncerConfig)) (*Announcer, *directory, *state, func()) {
	dir, s := new(directory), &state{a: announcement.Announcement{Addr: "h:1", Version: "3.0.0", Fingerprint: "f"}}
	c := AnnouncerConfig{
		Directory: dir, Name: NewName(), State: s.get, Now: func() int64 {
			return time.Now().UnixMilli()
		}, Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&c)
	}
	a := NewAnnouncer(c)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	running.Go(func() { // as the daemon's clock does
		for tick := time.NewTicker(lookEvery); ; {
			select {
			case <-tick.C:
				a.Look()
			case <-ctx.Done():
				return
			}
		}
	})
	synctest.Wait()
	return a, dir, s, func() {
		cancel()
		running.Wait()
	}
}

// TestEachChangeIsWrittenOnce: not ready first, ready as soon as that is true, not ready when the daemon
// leaves, nothing at the end; and nothing is written while nothing changes.
func TestEachChangeIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir, s, stop := announcing(t)
		defer stop()
		began := time.Now().UnixMilli()
		if e := dir.entry(t, a.Name); e.Ready || e.Addr != "h:1" || e.At != began || e.Version != "3.0.0" ||
			e.Fingerprint != "f" {
			t.Errorf("at the start it announced %+v", e)
		}
		time.Sleep(time.Minute)
		s.set(true, 7)
		time.Sleep(lookSoon)
		synctest.Wait()
		if e := dir.entry(t, a.Name); !e.Ready || !slices.Equal(e.Workers, []uint64{7}) ||
			e.At < began+time.Minute.Milliseconds() {
			t.Errorf("when it was ready it announced %+v", e)
		}
		time.Sleep(time.Minute)
		s.set(true, 7, 9)
		time.Sleep(time.Minute)
		if err := a.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		if e := dir.entry(t, a.Name); e.Ready || len(e.Workers) != 2 {
			t.Errorf("when it left it announced %+v", e)
		}
		time.Sleep(time.Minute)
		if err := a.End(t.Context()); err != nil || len(dir.entries) != 0 {
			t.Errorf("at the end: %v, %v", err, dir.entries)
		}
		s.set(true, 8)
		time.Sleep(time.Minute)
		if n := dir.called(); n != 5 {
			t.Errorf("%d calls: %q", n, dir.calls)
		}
		if written, failed := a.Counts(); written != 4 || failed != 0 {
			t.Errorf("counted %d and %d", written, failed)
		}
	})
}

const lookEvery = time.Second

// TestAReadyDaemonIsNotWokenOften: it looks when it is awake anyway, and a change is seen then.
func TestAReadyDaemonIsNotWokenOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir, s, stop := announcing(t)
		defer stop()
		s.set(true, 7)
		time.Sleep(lookSoon)
		synctest.Wait()
		before := s.looked()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := s.looked() - before; n != 60 {
			t.Errorf("%d looks in a minute", n)
		}
		s.set(false, 7)
		time.Sleep(lookEvery)
		synctest.Wait()
		if e := dir.entry(t, a.Name); e.Ready {
			t.Errorf("a second after it was not ready any more it announced %+v", e)
		}
	})
}

// TestAnAnnouncementThatFailsIsTriedAgain: once a second, and what was true before is not written later.
func TestAnAnnouncementThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir, s, stop := announcing(t)
		defer stop()
		dir.set(errors.New("no quorum"), false)
		s.set(true, 7)
		time.Sleep(10*time.Second + lookEvery)
		synctest.Wait()
		if n := dir.called() - 1; n < 10 || n > 12 {
			t.Errorf("%d calls in 10 s", n)
		}
		if _, failed := a.Counts(); int(failed) != dir.called()-1 {
			t.Errorf("counted %d failures", failed)
		}
		s.set(false) // as the last one that was written: but that may have been written over
		before := dir.called()
		dir.set(nil, false)
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		if e := dir.entry(t, a.Name); dir.called() != before+1 || e.Ready {
			t.Errorf("after the outage %d calls, and %+v", dir.called()-before, e)
		}
	})
}

// TestAStoreThatForgets is told again, without a word in the log, and not after the end.
func TestAStoreThatForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		a, dir, s, stop := announcing(t, func(c *AnnouncerConfig) {
			c.Again, c.Log = 10*time.Second, slog.New(slog.NewTextHandler(&log, nil))
		})
		defer stop()
		s.set(true, 7)
		time.Sleep(lookEvery)
		synctest.Wait()
		before := dir.called()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := dir.called() - before; n != 6 {
			t.Errorf("told again %d times in a minute", n)
		}
		if n := strings.Count(log.String(), "announced"); n != 2 { // not ready, and ready
			t.Errorf("%d lines: %s", n, log.String())
		}
		if err := a.End(t.Context()); err != nil {
			t.Fatal(err)
		}
		before = dir.called()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := dir.called() - before; n != 0 {
			t.Errorf("told %d times after the end", n)
		}
	})
}

// forbidden is a refusal that lasts.
type forbidden struct{}

func (forbidden) Error() string             { return "no right" }
func (forbidden) RetryAfter() time.Duration { return 10 * time.Minute }
func (forbidden) Reason() string            { return "no right for anybody" }

// TestAStoreThatSaysWhenToTryAgain is not asked before.
func TestAStoreThatSaysWhenToTryAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir, s, stop := announcing(t)
		defer stop()
		dir.set(fmt.Errorf("store: %w", forbidden{}), false)
		s.set(true, 7)
		time.Sleep(lookEvery)
		synctest.Wait()
		before := dir.called()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := dir.called() - before; n < 5 || n > 6 {
			t.Errorf("%d calls in an hour", n)
		}
		if got := a.Refusal(); got != "no right for anybody" {
			t.Errorf("it is refused because of %q", got)
		}
		dir.set(errors.New("no answer"), false)
		time.Sleep(10*time.Minute + lookEvery)
		synctest.Wait()
		if got := a.Refusal(); got != "" {
			t.Errorf("without an answer it is refused because of %q", got)
		}
		dir.set(fmt.Errorf("store: %w", forbidden{}), false)
		time.Sleep(lookEvery)
		synctest.Wait()
		dir.set(nil, false)
		time.Sleep(10*time.Minute + lookEvery)
		synctest.Wait()
		if e := dir.entry(t, a.Name); !e.Ready {
			t.Errorf("with the right it announced %+v", e)
		}
		if got := a.Refusal(); got != "" {
			t.Errorf("with the right it is refused because of %q", got)
		}
	})
}

// TestLeavingDoesNotWaitForLong: the store does not answer, and the daemon stops all the same.
func TestLeavingDoesNotWaitForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, dir, s, stop := announcing(t)
		defer stop()
		dir.set(nil, true)
		s.set(true, 7)
		time.Sleep(lookSoon + writeTimeout/2) // Run's call is under way
		began := time.Now()
		if err := a.Leave(t.Context()); err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took > 2*writeTimeout {
			t.Errorf("it took %v", took)
		}
		for _, text := range dir.calls[2:] {
			if e, _ := announcement.Parse(text); e.Ready {
				t.Errorf("announced %s after it had left", text)
			}
		}
	})
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		n := NewName()
		if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`).MatchString(n) || strings.HasPrefix(n, ".") || seen[n] {
			t.Errorf("name %q", n)
		}
		seen[n] = true
	}
}
