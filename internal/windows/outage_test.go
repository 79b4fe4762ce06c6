package windows

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
)

// TestTheLogSaysWhenNoIDsAreIssued: at a level that `journalctl -p err` shows, once, and when they are
// issued again at one that -p warning shows, be it at the start or later, and whatever the reason.
func TestTheLogSaysWhenNoIDsAreIssued(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		f, away := &fake{}, errors.New("connection refused")
		f.set(away, nil)
		h := begun(t, leasing(&log, f))
		said := func(after time.Duration) (lines string) {
			t.Helper()
			log.take()
			time.Sleep(after)
			synctest.Wait()
			for line := range strings.Lines(log.take()) {
				if !strings.Contains(line, "msg=lease ") {
					lines += line
				}
			}
			return lines
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
		f.set(nil, nil)
		expect("the store is back", said(time.Minute), `level=WARN msg="ids are issued again" after=1m`)
		h.Opened(0)
		f.set(away, nil)
		expect("the store is away, and the window lasts", said(30*time.Second))
		expect("the window has ended", said(time.Minute), `level=ERROR msg="no ids are issued" reason="lease expired `)
		f.set(nil, nil)
		expect("the store is back", said(time.Minute), `level=WARN msg="ids are issued again"`)
		if _, err := h.id(); err != nil {
			t.Fatal(err)
		}
		f.set(away, nil)
		h.Quiet(true)
		expect("another process takes over", said(3*time.Minute))
		h.Quiet(false)
		expect("it has not", said(time.Minute), `level=ERROR msg="no ids are issued"`)
		f.set(nil, nil)
		expect("the store is back", said(time.Minute), `level=WARN msg="ids are issued again"`)
		<-h.Leave()
		f.set(away, nil)
		expect("it stops", said(3*time.Minute))
	})
}

// TestANewcomerMayWatchThePool: a start that takes as long is no outage.
func TestANewcomerMayWatchThePool(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		f := &fake{}
		f.set(errors.New("connection refused"), nil)
		c := leasing(&log, f)
		c.Store.Watch = 5 * time.Second
		begun(t, c)
		time.Sleep(6500 * time.Millisecond) // the first look is after a second
		if got := log.take(); strings.Contains(got, portClosed) {
			t.Error(got)
		}
		time.Sleep(time.Second)
		if got := log.take(); strings.Count(got, portClosed) != 1 {
			t.Error(got)
		}
	})
}

// TestAFullRateIsNoOutage: with ticks longer than a client may wait, Ready says for a moment that the ids are
// used up.
func TestAFullRateIsNoOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := fixed(&log)
		c.Layout, _ = generator.LayoutByName("sonyflake") // ticks of 10 ms
		h := New(c)
		h.Opened(0)
		now := h.Clock.Now()
		if err := h.Issuer.Publish(0, 1, now, now+60_000); err != nil {
			t.Fatal(err)
		}
		for h.Issuer.Ready(h.Clock.Now()) == nil {
			h.id()
		}
		refusal := (*issuer.Refusal)(nil)
		if err := h.c.Ready(); !errors.As(err, &refusal) || refusal.Reason != issuer.RateExceeded {
			t.Fatal(err)
		}
		if h.lookForOutage(time.Now()); strings.Contains(log.take(), "level=ERROR") {
			t.Error("it is an outage")
		}
	})
}

// TestARestartMustWait: for the wall clock, if ids are further ahead of it than the next run begins, and nothing
// is recorded.
func TestARestartMustWait(t *testing.T) {
	for _, c := range []struct {
		name      string
		dir       string
		ahead     time.Duration // of the last id before the wall clock
		succeeded bool
		want      string // empty = nothing is said
	}{
		{"as far as the run-ahead", "", time.Second, false, ""},
		{"further", "", time.Second + 5*time.Millisecond, false,
			`msg="no state directory: do not start this daemon again before the wall clock has passed its last id" ` +
				`wait=1.005s until=2026-03-04T05:06:`},
		{"another process goes on", "", 5 * time.Second, true, ""},
		{"windows are recorded", t.TempDir(), 5 * time.Second, false, ""},
	} {
		bubble(t, func(t *testing.T) {
			var log said
			config := fixed(&log)
			config.StateDir = c.dir
			h := begun(t, config)
			<-h.Serving()
			if got := log.take(); strings.Contains(got, "no state directory: ids repeat if") != (c.dir == "") {
				t.Errorf("%s: at the start: %s", c.name, got)
			}
			time.Sleep(3 * time.Second)
			if err := h.Issuer.Generator(0).Skip(h.Clock.Now() + c.ahead.Milliseconds()); err != nil {
				h.Issuer.Publish(0, 1, h.Clock.Now(), h.Clock.Now()+window) // a state file's window is shorter
				h.Issuer.Generator(0).Skip(h.Clock.Now() + c.ahead.Milliseconds())
			}
			log.take()
			h.Stop(c.succeeded)
			got := log.take()
			if strings.Contains(got, "do not start this daemon") != (c.want != "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: %s\nwant %s", c.name, got, c.want)
			}
		})
	}
}

// TestAClockThatStaysAheadIsTold: without a record, while the program runs.
func TestAClockThatStaysAheadIsTold(t *testing.T) {
	var log said
	h := begun(t, fixed(&log))
	h.Clock.StaysAhead(3 * time.Second)
	want := `msg="no state directory: once this daemon stops, do not start it again before the wall clock has passed ` +
		`its last id" wait=4s`
	if got := log.take(); !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}
