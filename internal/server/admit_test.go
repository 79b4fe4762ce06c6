package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The first refused connection is logged at once, later ones once a minute with their number,
// whichever loop refuses them.
func TestRefusedConnectionsAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := &Config{MaxConnections: 1, Counters: new(Counters), Log: slog.New(slog.NewTextHandler(&log, nil))}
		logged := func(want string) {
			t.Helper()
			if got := log.String(); want == "" && got != "" || !strings.Contains(got, want) || strings.Count(got, "\n") > 1 {
				t.Errorf("logged %q, want %q", got, want)
			}
			log.Reset()
		}
		if !c.Admit() {
			t.Fatal("the first one was refused")
		}
		logged("")
		refuse := func(n int) {
			t.Helper()
			for range n {
				if c.Admit() {
					t.Fatal("one too many was admitted")
				}
			}
		}
		refuse(1)
		logged(`level=WARN msg="too many connections" limit=1 refused=1`)
		refuse(5)
		time.Sleep(linePause - 1)
		refuse(1)
		logged("")
		time.Sleep(time.Nanosecond)
		refuse(1)
		logged("refused=7\n")
		time.Sleep(time.Hour)
		logged("")
		refuse(1)
		logged("refused=1\n")
	})
}

// A connection becomes idle after the whole time-out, not before and not much later, wherever
// between two sweeps it was last active.
func TestIdleAfterTheWholeTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{8 * time.Millisecond, time.Second, time.Minute, time.Hour} {
		period := SweepPeriod(timeout)
		for _, heard := range []time.Duration{0, 1, period / 2, period - 1} { // since sweep 3
			last, sweep := uint32(3), uint32(3)
			for !Idle(sweep, last) && sweep < 100 {
				sweep++
			}
			after := time.Duration(sweep-last)*period - heard
			if after < timeout || after > timeout+timeout/4 {
				t.Errorf("time-out %v: idle %v after it was heard of", timeout, after)
			}
		}
	}
	if Idle(1, 1<<32-1) || !Idle(100, 1<<32-1) {
		t.Error("not right when the number of sweeps comes round to 0")
	}
}
