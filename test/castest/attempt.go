package castest

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// attempts is how often a test is begun anew. On a machine where a server stands still, a driver may lose its
// connection or its session, and with it what a test has announced. A driver that always loses them fails each time.
const attempts = 10

// An attempt at a test keeps what is wrong until it is known whether the attempt counts.
type attempt struct {
	testing.TB
	place Place

	mu    sync.Mutex
	wrong []string
	sides []*side
}

// try tests in a place, and begins anew in another one as long as a driver was disturbed.
func try(t *testing.T, fresh func(t testing.TB) Place, test func(*attempt)) {
	t.Helper()
	for n := 1; ; n++ {
		a := &attempt{TB: t, place: fresh(t)}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			test(a)
		}()
		if <-ended; !a.Failed() {
			return
		}
		why := a.disturbed()
		for _, text := range a.wrong {
			if why != "" && n < attempts {
				t.Logf("attempt %d does not count, %s: %s", n, why, text)
			} else {
				t.Error(text)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// disturbed says which driver has another connection or session than the test knows of.
func (a *attempt) disturbed() string {
	for i, s := range a.sides {
		if s.closed {
			continue
		}
		ctx, cancel := within()
		conn, err := s.Connect(ctx)
		cancel()
		if err != nil || conn != s.conn || s.session() != s.begun {
			return fmt.Sprintf("driver %d was disturbed (%v)", i, err)
		}
	}
	return ""
}

// open opens the driver of another daemon.
func (a *attempt) open() *side {
	a.Helper()
	s := a.place.open(a)
	a.sides = append(a.sides, s)
	return s
}

func (a *attempt) note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrong = append(a.wrong, text)
}

func (a *attempt) Failed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.wrong) > 0
}

func (a *attempt) Error(args ...any)                 { a.note(fmt.Sprint(args...)) }
func (a *attempt) Errorf(format string, args ...any) { a.note(fmt.Sprintf(format, args...)) }

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *attempt) Fatal(args ...any) {
	a.Error(args...)
	runtime.Goexit()
}
