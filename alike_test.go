package katsubushi_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/katsubushitest"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A texter is what issues texts: a *katsubushi.Name or a *client.Generator.
type texter interface {
	katsubushi.Source
	Text(ctx context.Context) (string, error)
}

// An alike is a library or a client.
type alike struct {
	katsubushi.Source
	few, session texter             // a sequence that ends at 3, and UUIDs
	busy         katsubushi.Source  // where many ids take long
	close        func() (err error) // of all three
}

// alikes open both.
var alikes = map[string]func(t *testing.T) alike{
	"library": func(t *testing.T) alike {
		counters, err := file.Open(file.Config{Dir: t.TempDir(), AnyDisk: true})
		if err != nil {
			t.Fatal(err)
		}
		slow := generator.Katsubushi()
		slow.TimeBits, slow.SequenceBits = 41, 3
		ids := open(t, katsubushi.Config{Store: static.Dir(t.TempDir(), 983), Counters: counters, Layout: slow})
		name := func(definition string) texter {
			n, err := ids.Name(t.Context(), definition)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		return alike{ids, name("few sequence max=3"), name("session uuid7"), ids, ids.Close}
	},
	"client": func(t *testing.T) alike {
		dial := func(addr string) *client.Client {
			c, err := client.New(client.Static(addr), client.Config{Timeout: time.Minute, DialTimeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		silent, err := net.Listen("tcp", "127.0.0.1:0") // it answers nothing
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { silent.Close() })
		ids := dial(katsubushitest.Start(t, katsubushitest.Names("few sequence max=3", "session uuid7")))
		busy := dial(silent.Addr().String())
		return alike{ids, ids.Generator("few"), ids.Generator("session"), busy, func() error {
			return errors.Join(ids.Close(), busy.Close())
		}}
	},
}

// TestTheClientIsAlike: what a program sees of the library is what it sees of the client, so it can change from one to
// the other.
func TestTheClientIsAlike(t *testing.T) {
	for name, start := range alikes {
		t.Run(name, func(t *testing.T) {
			a := start(t)
			sameErrors(t, a)
			sameIDs(t, a)
			sameEnd(t, a)
		})
	}
}

// sameErrors: what a caller gets whose ctx is over, or who asks for a wrong number.
func sameErrors(t *testing.T, a alike) {
	t.Helper()
	cause := errors.New("the request was cancelled")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, s := range []katsubushi.Source{a, a.few} {
		v, err := s.ID(over)
		list, errs := s.IDs(over, 2)
		for _, err := range []error{err, errs} {
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || v != 0 || list != nil {
				t.Errorf("a ctx that is over: %d, %d, %v", v, list, err)
			}
		}
		for _, n := range []int{-1, 0, katsubushi.MaxIDs + 1} {
			if list, err := s.IDs(t.Context(), n); !errors.Is(err, katsubushi.ErrCount) || list != nil {
				t.Errorf("%d: %v, %v", n, list, err)
			}
		}
	}
	soon, cancelSoon := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelSoon()
	if list, err := a.busy.IDs(soon, katsubushi.MaxIDs); !errors.Is(err, context.DeadlineExceeded) || list != nil {
		t.Errorf("a deadline: %d ids, %v", len(list), err)
	}
}

// sameIDs: what a caller gets.
func sameIDs(t *testing.T, a alike) {
	t.Helper()
	list, err := a.IDs(t.Context(), 500)
	if err != nil || len(list) != 500 || !slices.IsSorted(list) || len(slices.Compact(list)) != 500 {
		t.Errorf("%d ids, %v", len(list), err)
	}
	if few, err := a.few.IDs(t.Context(), 3); err != nil || !slices.Equal(few, []uint64{1, 2, 3}) {
		t.Errorf("%d, %v", few, err)
	}
	if v, err := a.few.ID(t.Context()); v != 0 || err == nil {
		t.Errorf("after the end of a sequence: %d, %v", v, err)
	}
	if text, err := a.session.Text(t.Context()); err != nil || len(text) != 36 {
		t.Errorf("%q, %v", text, err)
	}
	if v, err := a.session.ID(t.Context()); v != 0 || err == nil {
		t.Errorf("a text as a number: %d, %v", v, err)
	}
}

// sameEnd: Close ends calls that wait, and all later ones.
func sameEnd(t *testing.T, a alike) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := a.busy.IDs(context.Background(), katsubushi.MaxIDs)
		ended <- err
	}()
	if err := errors.Join(a.close(), a.close()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, katsubushi.ErrClosed) {
		t.Errorf("a call that Close ended: %v", err)
	}
	for _, s := range []katsubushi.Source{a, a.few, a.busy} {
		v, err := s.ID(t.Context())
		list, errs := s.IDs(t.Context(), 2)
		if !errors.Is(err, katsubushi.ErrClosed) || !errors.Is(errs, katsubushi.ErrClosed) || v != 0 || list != nil {
			t.Errorf("after Close: %d, %v, %d, %v", v, err, list, errs)
		}
	}
	if text, err := a.session.Text(t.Context()); !errors.Is(err, katsubushi.ErrClosed) || text != "" {
		t.Errorf("after Close: %q, %v", text, err)
	}
}
