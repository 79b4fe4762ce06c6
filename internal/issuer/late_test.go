package issuer

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// lateTestbed has a window of 2 s that is over for 300 ms already, as after a pause of the process, and counts who
// is woken.
func lateTestbed(t *testing.T) (b *testbed, woken *int) {
	t.Helper()
	b, woken = newTestbed(1, time.Second, generator.Katsubushi()), new(int)
	b.c.Wake = func() { *woken++ }
	b.publish(t, 0, 7, start, start+2000)
	b.now = start + 2301
	*woken = 0
	return b, woken
}

// What meets an extension that is late waits for it, whatever it asks for.
func TestARequestWaitsForALateExtension(t *testing.T) {
	for what, source := range map[string]func(*testbed) id.Source{
		"ids":            func(b *testbed) id.Source { return b.Source(0) },
		"another layout": func(b *testbed) id.Source { return mustSnowflake(t, b, generator.Twitter()).Source(0) },
		"texts": func(b *testbed) id.Source {
			k, err := b.Issuer.Kind(kinds.Definition{Kind: kinds.UUID7})
			return mustKind(t, k, err).Source(0)
		},
	} {
		for _, bulk := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				b, woken := lateTestbed(t)
				s := source(b)
				for range 3 {
					if r, err := s.Mint(id.At(b.now), 1, bulk); err != id.ErrWait {
						t.Errorf("%s: %v, %v", what, r, err)
					}
					time.Sleep(50 * time.Millisecond)
				}
				if err := b.Extend(0, start+2001, b.now+2000); err != nil {
					t.Fatal(err)
				}
				if *woken != 1 || b.Refused(LeaseExpired) != 0 {
					t.Errorf("%s: woken %d times, %d refused", what, *woken, b.Refused(LeaseExpired))
				}
				if r, err := s.Mint(id.At(b.now), 1, bulk); err != nil || r.N != 1 {
					t.Errorf("%s: %v, %v", what, r, err)
				}
			})
		}
	}
}

// It waits for 250 ms at most, and after that nobody does, until an extension has come.
func TestALateExtensionIsNotAwaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, woken := lateTestbed(t)
		s := b.Source(0)
		refused := func() {
			t.Helper()
			if r, err := s.Mint(id.At(b.now), 1, false); err == nil || err.Error() != "lease expired 0.3s ago" || b.Late() {
				t.Errorf("%v, %v", r, err)
			}
		}
		waits := func() {
			t.Helper()
			if r, err := s.Mint(id.At(b.now), 1, false); err != id.ErrWait || !b.Late() {
				t.Errorf("%v, %v", r, err)
			}
		}
		askFor(MaxPark-time.Millisecond, waits)
		waits()
		time.Sleep(time.Millisecond)
		refused()
		// one that does not reach the present, because the process was stopped again
		if err := b.Extend(0, start+2001, start+2002); err != nil || *woken != 0 {
			t.Errorf("%v, woken %d times", err, *woken)
		}
		refused()
		time.Sleep(time.Hour)
		refused()
		if err := b.Extend(0, start+2003, b.now+1000); err != nil || *woken != 1 || b.Late() {
			t.Errorf("%v, woken %d times", err, *woken)
		}
		if _, err := s.Mint(id.At(b.now), 1, false); err != nil {
			t.Error(err)
		}
		b.now += 1300
		waits()
		if err := b.Publish(0, 8, b.now-10, b.now+1000); err != nil || *woken != 2 || b.Late() {
			t.Errorf("%v, woken %d times", err, *woken)
		}
	})
}

// Other reasons are told at once: nothing is on its way that would end them.
func TestNobodyWaitsForWhatNoExtensionEnds(t *testing.T) {
	for what, c := range map[string]struct {
		then func(*testbed)
		want string
	}{
		"sealed":           {func(b *testbed) { b.Seal(0) }, "no worker id yet"},
		"the clock behind": {func(b *testbed) { b.now = start - 3000 }, "clock 3.0s behind the last id"},
		"nobody is woken":  {func(b *testbed) { b.c.Wake = nil }, "lease expired 0.3s ago"},
	} {
		b, _ := lateTestbed(t)
		c.then(b)
		_, err := b.Source(0).Mint(id.At(b.now), 1, false)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || b.Late() {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// HTTP and gRPC have no session that could wait. Their requests do, and are woken.
func TestABatchWaitsForALateExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := lateTestbed(t)
		c := NewCatalog(func() int64 { return b.now }, b.Issuer, false)
		b.c.Wake = c.Wake
		time.AfterFunc(20*time.Millisecond, func() {
			if err := b.Extend(0, start+2001, b.now+2000); err != nil {
				t.Error(err)
			}
		})
		begun := time.Now()
		if _, err := c.Batch(t.Context(), nil, 10); err != nil || time.Since(begun) != 20*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		b.now += 10_000
		begun = time.Now()
		var refusal *Refusal
		if _, err := c.Batch(t.Context(), nil, 10); !errors.As(err, &refusal) || time.Since(begun) != MaxPark {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
