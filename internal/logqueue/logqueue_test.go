package logqueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// An outlet is a log that blocks or fails on demand.
type outlet struct {
	mu      sync.Mutex
	text    strings.Builder
	writes  int
	fail    error
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
	o.writes++
	if o.fail != nil {
		n := min(o.accepts, len(b))
		o.text.Write(b[:n])
		return n, o.fail
	}
	return o.text.Write(b)
}

func (o *outlet) set(fail error, gate chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail, o.gate = fail, gate
}

func (o *outlet) lines() []string {
	return strings.Split(strings.TrimSuffix(o.text.String(), "\n"), "\n")
}

func lostLine(n uint64) []byte { return fmt.Appendf(nil, "lost %d\n", n) }

var errBroken = errors.New("broken pipe")

func TestLinesAreWrittenOneByOneAndInOrder(t *testing.T) {
	o := &outlet{}
	w := New(o, lostLine)
	var want []string
	for i := range 1000 { // two thirds of what the queue holds
		want = append(want, fmt.Sprintf("line %d, which is as long as it is", i))
		fmt.Fprintln(w, want[i])
	}
	if !w.Close(time.Hour) || !slices.Equal(o.lines(), want) || w.Dropped() != 0 {
		t.Fatalf("%d lines, %d dropped", len(o.lines()), w.Dropped())
	}
	if o.writes != len(want) {
		t.Errorf("%d writes for %d lines: those of other processes get in between", o.writes, len(want))
	}
}

// TestNobodyWaitsForALogThatBlocks: once the log goes on, it says at the gap how many lines are
// missing.
func TestNobodyWaitsForALogThatBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		o := &outlet{gate: gate}
		w := New(o, lostLine)
		fmt.Fprintln(w, "first")
		synctest.Wait() // it is being written
		long := strings.Repeat("x", Limit/4-1)
		for range 5 { // four fit
			fmt.Fprintln(w, long)
		}
		fmt.Fprintln(w, "short enough, but behind a gap")
		if w.Dropped() != 2 {
			t.Errorf("%d dropped", w.Dropped())
		}
		if w.Close(0) {
			t.Error("closed, and the log is blocked")
		}
		close(gate)
		if !w.Close(time.Second) {
			t.Error("not closed, and the log goes on")
		}
		if want := []string{"first", long, long, long, long, "lost 2"}; !slices.Equal(o.lines(), want) {
			t.Errorf("%d lines, the last: %q", len(o.lines()), o.lines()[len(o.lines())-1])
		}
	})
}

func TestItWritesAgainAfterAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		o := &outlet{gate: gate}
		w := New(o, lostLine)
		fmt.Fprintln(w, "first")
		synctest.Wait()
		fmt.Fprintln(w, strings.Repeat("x", Limit))
		o.set(nil, nil)
		close(gate)
		synctest.Wait()
		fmt.Fprintln(w, "after")
		w.Close(time.Hour)
		if want := []string{"first", "lost 1", "after"}; !slices.Equal(o.lines(), want) {
			t.Errorf("%q", o.lines())
		}
	})
}

func TestLinesThatCannotBeWrittenAreCountedAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outlet{fail: errBroken}
		w := New(o, lostLine)
		for range 3 {
			fmt.Fprintln(w, "nobody is there")
			synctest.Wait()
		}
		if o.writes != 3 {
			t.Errorf("%d attempts for three lines", o.writes)
		}
		o.set(nil, nil)
		synctest.Wait()
		fmt.Fprintln(w, "somebody is back")
		w.Close(time.Hour)
		if want := []string{"lost 3", "somebody is back"}; !slices.Equal(o.lines(), want) || w.Dropped() != 3 {
			t.Errorf("%q, %d dropped", o.lines(), w.Dropped())
		}
	})
}

// TestALineThatWasCutGetsAnEnd: a full disk takes half a line.
func TestALineThatWasCutGetsAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &outlet{fail: errBroken, accepts: 4}
		w := New(o, lostLine)
		fmt.Fprintln(w, "half a line")
		synctest.Wait()
		o.set(nil, nil)
		fmt.Fprintln(w, "whole")
		w.Close(time.Hour)
		if want := []string{"half", "lost 1", "whole"}; !slices.Equal(o.lines(), want) {
			t.Errorf("%q", o.lines())
		}
	})
}

func TestCloseWaitsNoLongerThanItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		o := &outlet{gate: gate}
		w := New(o, lostLine)
		fmt.Fprintln(w, "first")
		began := time.Now()
		if w.Close(time.Second) || time.Since(began) != time.Second {
			t.Errorf("after %v", time.Since(began))
		}
		fmt.Fprintln(w, "too late")
		close(gate)
		if !w.Close(time.Hour) || w.Dropped() != 1 || !slices.Equal(o.lines(), []string{"first", "lost 1"}) {
			t.Errorf("%d dropped, %q", w.Dropped(), o.lines())
		}
	})
}

func TestManyMayWriteAndCloseAtOnce(t *testing.T) {
	o := &outlet{}
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
	if n := strings.Count(o.text.String(), "one of many\n"); n != 800 || w.Dropped() != 0 {
		t.Errorf("%d lines, %d dropped", n, w.Dropped())
	}
}
