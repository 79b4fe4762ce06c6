package logqueue

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// An outlet is a log that blocks or fails on demand.
type outlet struct {
	mu      sync.Mutex
	writes  []string // that were not told yet
	fail    bool
	accepts int           // bytes of a line that are written before it fails
	gate    chan struct{} // a write waits for it; nil = it does not wait
}

func (o *outlet) Write(b []byte) (int, error) {
	o.mu.Lock()
	gate := o.gate
	o.mu.Unlock()
	if gate != nil {
		<-gate
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fail {
		n := min(o.accepts, len(b))
		o.writes = append(o.writes, fmt.Sprintf("%q and no more of %q", b[:n], b))
		return n, errors.New("broken pipe")
	}
	said := fmt.Sprintf("%q", b)
	if len(b) > 100 {
		said = fmt.Sprintf("a line of %d bytes", len(b))
	}
	o.writes = append(o.writes, said)
	return len(b), nil
}

func (o *outlet) told() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { o.writes = nil }()
	return strings.Join(o.writes, "\n")
}

func lostLine(n uint64) []byte { return fmt.Appendf(nil, "lost %d\n", n) }

// TestWriter: in testdata/logs.txt, beside each step stands what is written to the log, each write in a line.
func TestWriter(t *testing.T) {
	steps.Run(t, "testdata/logs.txt", func(t *testing.T) steps.Calls {
		o := new(outlet)
		w := New(o, lostLine)
		unblock := func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.gate != nil {
				close(o.gate)
			}
			o.gate = nil
		}
		t.Cleanup(func() {
			unblock()
			w.Close(time.Hour)
		})
		return steps.Calls{
			"":       o.told,
			"write":  func(lines ...string) { fmt.Fprintln(w, strings.Join(lines, "\n")) }, // at once
			"fill":   func(parts int) { fmt.Fprintln(w, strings.Repeat("x", Limit/parts-1)) },
			"exceed": func() { fmt.Fprintln(w, strings.Repeat("x", Limit)) },
			// the write that is under way waits until unblock
			"block":   func() { o.gate = make(chan struct{}) },
			"unblock": unblock,
			"break":   func(accepts int) { o.fail, o.accepts = true, accepts },
			"mend":    func() { o.fail = false },
			"dropped": w.Dropped,
			"close": func(limit time.Duration) string {
				began := time.Now()
				return fmt.Sprintf("%v after %v", w.Close(limit), time.Since(began))
			},
		}
	})
}

func TestManyMayWriteAndCloseAtOnce(t *testing.T) {
	o := new(outlet)
	w := New(o, lostLine)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				fmt.Fprintln(w, "one of many")
			}
		})
	}
	wg.Wait()
	for range 3 {
		wg.Go(func() {
			if !w.Close(time.Hour) {
				t.Error("not closed")
			}
		})
	}
	wg.Wait()
	if n := strings.Count(o.told(), `"one of many\n"`); n != 800 || w.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped", n, w.Dropped())
	}
}
