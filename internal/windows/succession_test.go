package windows

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// succeeding makes a Holder that succeeds another one, and has started.
func succeeding(t *testing.T, c Config) *Holder {
	t.Helper()
	c.Succeeds = true
	return begun(t, c)
}

// rising issues ids and reports an error if one is not above the last.
func rising(t *testing.T, what string, h *Holder, last *uint64) {
	t.Helper()
	for range 3 {
		v, err := h.id()
		if err != nil || v <= *last {
			t.Errorf("%s: id %d after %d: %v", what, v, *last, err)
			return
		}
		*last = v
	}
}

// TestFixedWorkerIDsAreHandedOver: the successor issues nothing before it has them, and then above what was issued,
// at once; the old process issues nothing any more.
func TestFixedWorkerIDsAreHandedOver(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		bubble(t, func(t *testing.T) {
			var log said
			c := fixed(&log)
			c.StateDir = dir
			old := begun(t, c)
			<-old.Serving()
			time.Sleep(3 * time.Second)
			var last uint64
			rising(t, "before", old, &last)
			next := succeeding(t, c)
			time.Sleep(10 * time.Second)
			if _, err := next.id(); err == nil {
				t.Error("the successor issues ids")
			}
			if got := next.Status(); !strings.HasPrefix(got, "no worker id yet\nlane 0: ") {
				t.Error(got)
			}
			rising(t, "with a successor", old, &last)
			ahead := old.Clock.Now() + 700
			if err := old.Issuer.Generator(0).Skip(ahead); err != nil {
				t.Fatal(err)
			}
			given, err := old.GiveAway()
			if err != nil || given.Floor < ahead {
				t.Fatal(given, err)
			}
			if _, err := old.id(); err == nil {
				t.Error("the old process issues ids after GiveAway")
			}
			if err := next.TakeOver(t.Context(), &given, false); err != nil {
				t.Fatal(err)
			}
			rising(t, "after", next, &last)
			if now := next.Clock.Now(); next.Issuer.Position() <= given.Floor || now > given.Floor {
				t.Errorf("at %d after %d, and now it is %d", next.Issuer.Position(), given.Floor, now)
			}
			old.Stop(true)
			time.Sleep(time.Minute)
			rising(t, "later", next, &last)
			if got := log.take(); strings.Contains(got, "ERROR") || strings.Contains(got, "not given back") {
				t.Error(got)
			}
		})
	}
}

// TestOtherLayoutsGoOn: ids of another layout go on in the successor where the old process was; so they do in the old
// process if it takes back what nobody has issued from.
func TestOtherLayoutsGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := fixed(&log)
		c.StateDir = t.TempDir()
		old := begun(t, c)
		<-old.Serving()
		time.Sleep(3 * time.Second)
		var last uint64
		declared := func(h *Holder) issuer.Kind {
			t.Helper()
			k, err := h.Issuer.Kind(kinds.Definition{Kind: kinds.Snowflake, Layout: "instagram"})
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		issue := func(what string, h *Holder) {
			t.Helper()
			run, err := declared(h).Source(0).Mint(id.At(h.Clock.Now()), 1, false)
			if err != nil || run.First <= last {
				t.Errorf("%s: id %d after %d: %v", what, run.First, last, err)
			}
			last = run.First
		}
		issue("before", old)
		given, err := old.GiveAway()
		if err != nil || len(given.Places) != 1 || given.Places[0].Worker != 1 {
			t.Fatalf("%+v, %v", given, err)
		}
		if err := old.TakeBack(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		issue("taken back", old)
		next := succeeding(t, c)
		declared(next) // names are there before the windows
		if given, err = old.GiveAway(); err != nil {
			t.Fatal(err)
		}
		if err := next.TakeOver(t.Context(), &given, false); err != nil {
			t.Fatal(err)
		}
		if carried := next.Issuer.Places(); len(carried) != 1 || carried[0].Next < given.Places[0].Next {
			t.Errorf("the successor is at %+v, after %+v", carried, given.Places)
		}
		issue("in the successor", next)
		old.Stop(true)
	})
}

// TestLeasedWorkerIDsAreNotHandedOver: the successor has others before, and issues above the last id all the same. Its
// clock is as far ahead of the wall clock.
func TestLeasedWorkerIDsAreNotHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		f := &fake{}
		old := begun(t, leasing(&log, f))
		<-old.Serving()
		next := succeeding(t, leasing(&log, f))
		<-next.Serving()
		old.Clock.SetAhead(1234 * time.Millisecond)
		last := old.Clock.Now() + 900
		if err := old.Issuer.Generator(0).Skip(last); err != nil {
			t.Fatal(err)
		}
		given, err := old.GiveAway()
		if err != nil || given.Floor != last || given.Ahead != 1234*time.Millisecond || given.Places != nil {
			t.Fatalf("%+v, %v", given, err)
		}
		if err := next.TakeOver(t.Context(), &given, false); err != nil {
			t.Fatal(err)
		}
		if next.Clock.Ahead() != given.Ahead {
			t.Errorf("the clock is ahead by %v", next.Clock.Ahead())
		}
		if worker(t, next) != 6 || next.Issuer.Position() <= last {
			t.Errorf("%s, at %d after %d", next.Status(), next.Issuer.Position(), last)
		}
		if err := old.TakeBack(t.Context(), true); err != nil || worker(t, old) != 5 {
			t.Errorf("taken back: %v", err)
		}
		if got := f.calls(); strings.Contains(got, "release") {
			t.Errorf("a lease was given back: %s", got)
		}
	})
}

// TestATakeOverThatFailed: the old process goes on, above what the successor may have issued.
func TestATakeOverThatFailed(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		for _, served := range []bool{false, true} {
			bubble(t, func(t *testing.T) {
				var log said
				c := fixed(&log)
				c.StateDir = dir
				old := begun(t, c)
				<-old.Serving()
				time.Sleep(3 * time.Second)
				var last uint64
				rising(t, "before", old, &last)
				given, err := old.GiveAway()
				if err != nil {
					t.Fatal(err)
				}
				if served {
					next := succeeding(t, c)
					if err := next.TakeOver(t.Context(), &given, false); err != nil {
						t.Fatal(err)
					}
					rising(t, "successor", next, &last)
					if err := next.Issuer.Generator(0).Skip(next.Clock.Now() + 990); err != nil {
						t.Fatal(err)
					}
					rising(t, "successor", next, &last)
					next.Stop(true)
				}
				if err := old.TakeBack(t.Context(), served); err != nil {
					t.Fatal(err)
				}
				rising(t, "taken back", old, &last)
				time.Sleep(time.Minute)
				rising(t, "later", old, &last)
			})
		}
	}
}

// TestThePredecessorDied: the successor goes on with what it has, after a wait if the store wants that.
func TestThePredecessorDied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := fixed(&log)
		c.StateDir = t.TempDir()
		old := begun(t, c)
		<-old.Serving()
		time.Sleep(2 * time.Second)
		next := succeeding(t, c)
		time.AfterFunc(time.Second, func() { old.Stop(true) }) // the kernel lets go of what it had a while later
		if err := next.TakeOver(t.Context(), nil, true); err != nil {
			t.Fatal(err)
		}
		if worker(t, next) != 1 {
			t.Error(next.Status())
		}
	})
}

// TestATakeOverFails: when the store cannot be opened, at once, and if the predecessor has died after a while; when no
// id can be issued; when the daemon is stopped.
func TestATakeOverFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log said
		c := fixed(&log)
		c.StateDir = t.TempDir()
		old := begun(t, c)
		<-old.Serving()
		next := succeeding(t, c)
		for _, died := range []bool{false, true} {
			begun := time.Now()
			if err := next.TakeOver(t.Context(), nil, died); !errors.Is(err, static.ErrInUse) {
				t.Error(err)
			}
			if took := time.Since(begun); died != (took >= reopenPatience) || took > 2*reopenPatience {
				t.Errorf("died=%v: it took %v", died, took)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun := time.Now()
		if err := next.TakeOver(ctx, nil, true); err == nil || time.Since(begun) >= reopenPatience {
			t.Errorf("stopped: %v after %v", err, time.Since(begun))
		}
		given := Handed{Floor: old.Clock.Now() + 10*365*24*3600*1000}
		if err := old.TakeOver(t.Context(), &given, false); err == nil || !strings.Contains(err.Error(), "lane 0") {
			t.Errorf("a floor above the window: %v", err)
		}
	})
	for _, c := range []struct {
		died bool
		want time.Duration
	}{{false, grantPatience}, {true, time.Hour}} {
		bubble(t, func(t *testing.T) {
			var log said
			config := fixed(&log)
			next := succeeding(t, config)
			// its window begins when the clock gets there
			given, begun := Handed{Floor: next.Clock.Now() + 2*time.Hour.Milliseconds()}, time.Now()
			err := next.TakeOver(t.Context(), &given, c.died)
			if err == nil || !strings.HasPrefix(err.Error(), "no id can be issued: ") ||
				!strings.Contains(err.Error(), "\nlane 0: waiting") {
				t.Errorf("%v", err)
			}
			if took := time.Since(begun); took != c.want {
				t.Errorf("died=%v: it took %v", c.died, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			next.end()
			next.store.Close()
			if err := next.TakeOver(ctx, &given, false); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("stopped: %v", err)
			}
		})
	}
}

// TestTheSuccessorsPlaceIsElsewhere: until the windows are handed over, it gets none and gives none back.
func TestTheSuccessorsPlaceIsElsewhere(t *testing.T) {
	ctx := context.Background()
	if _, err := (elsewhere{}).Acquire(ctx, workerid.Request{}); !errors.Is(err, workerid.ErrNoID) {
		t.Error(err)
	}
	if _, err := (elsewhere{}).Extend(ctx, nil); !errors.Is(err, workerid.ErrNoID) {
		t.Error(err)
	}
	if err := (elsewhere{}).Release(ctx, workerid.Grant{}, 0); !errors.Is(err, workerid.ErrLost) {
		t.Error(err)
	}
}

// TestWhatCannotBeGivenBack: the successor gets nothing, and the old process may take it back.
func TestWhatCannotBeGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		h := begun(t, fixed(new(said)))
		<-h.Serving()
		h.store = f
		f.set(errors.New("the disk is full"), nil)
		given, err := h.GiveAway()
		if err == nil || err.Error() != "worker ids cannot be given back: the disk is full" || given.Floor != 0 {
			t.Errorf("%+v, %v", given, err)
		}
		if err := h.TakeBack(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		if worker(t, h) != 1 {
			t.Error(h.Status())
		}
	})
}

// TestTheDiskIsAskedBesideOtherFiles: a link of the name that an upgrade writes to leads nowhere.
func TestTheDiskIsAskedBesideOtherFiles(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "upgrade.tmp"), filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Symlink("victim", path)); err != nil {
		t.Fatal(err)
	}
	c := fixed(new(said))
	c.StateDir = dir
	if err := New(c).DiskAnswers(); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(victim); string(text) != "precious" {
		t.Errorf("the other file says %q, %v", text, err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("upgrade.tmp is left: %v", err)
	}
	if err := New(leasing(new(said), nil)).DiskAnswers(); err != nil {
		t.Error(err)
	}
}
