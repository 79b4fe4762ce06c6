package static_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

func TestInspect(t *testing.T) {
	w := newWorld(t)
	w.dir = filepath.Join(w.dir, "[0]") // a name is no pattern
	if _, err := static.Inspect(w.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := static.Inspect(w.dir); err == nil {
		t.Error("an empty directory has nothing to show")
	}
	s := w.open(t, 10, 9)
	g := mustAcquire(t, s, workerid.Request{Min: 9, Max: 9})
	mustAcquire(t, s, workerid.Request{Min: 10, Max: 10})
	infos, err := static.Inspect(w.dir)
	if err != nil || len(infos) != 2 || infos[1].Worker != 10 {
		t.Fatalf("%+v, %v", infos, err)
	}
	want := static.Info{
		Path: filepath.Join(w.dir, "worker-9.state"), Worker: 9, Generation: 1, HighWater: time.UnixMilli(g.Hi).UTC(),
		Fingerprint: fingerprint, Machine: "machine-1",
	}
	if got := infos[0]; got.Path != want.Path || got.Worker != want.Worker || got.HighWater != want.HighWater ||
		got.Fingerprint != want.Fingerprint ||
		got.Machine != want.Machine || got.Generation != want.Generation || got.Damage != nil || got.Err != nil {
		t.Errorf("%+v, want %+v", got, want)
	}
	damage := func(at int64) {
		f, err := os.OpenFile(want.Path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{0}, at); err != nil {
			t.Fatal(err)
		}
	}
	find := func() static.Info {
		infos, err := static.Inspect(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		return infos[slices.IndexFunc(infos, func(i static.Info) bool { return i.Path == want.Path })]
	}
	damage(100)
	if i := find(); i.Err != nil || len(i.Damage) != 1 || i.HighWater != want.HighWater {
		t.Errorf("one copy damaged: %+v", i)
	}
	damage(5000)
	if i := find(); !errors.Is(i.Err, static.ErrDamaged) {
		t.Errorf("both damaged: %+v", i)
	}
}

func TestAdopt(t *testing.T) {
	w := newWorld(t)
	if _, err := static.Adopt(w.dir, 7, t0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing to adopt: %v", err)
	}
	s := w.open(t, 7)
	g := mustAcquire(t, s, one)
	if _, err := static.Adopt(w.dir, 7, t0); !errors.Is(err, static.ErrInUse) {
		t.Errorf("a running daemon's: %v", err)
	}
	s.Close()
	c := w.config(7)
	c.Machine = "" // look it up
	if static.MachineID() == "" {
		t.Skip("this machine has no identity")
	}
	if _, err := static.Open(c); !errors.Is(err, static.ErrOtherMachine) || !strings.Contains(err.Error(), "state adopt") {
		t.Fatalf("before: %v", err)
	}
	// Up to now the other one may have gone on with a file that this one is an older copy of.
	now := t0 + 3600_000
	info, err := static.Adopt(w.dir, 7, now)
	if err != nil || info.Machine != static.MachineID() || info.HighWater != time.UnixMilli(now+2000).UTC() ||
		info.Fingerprint != fingerprint {
		t.Fatalf("%+v, %v", info, err)
	}
	s, err = static.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if next := mustAcquire(t, s, one); next.Lo != now+2001 {
		t.Errorf("%+v after %+v", next, g)
	}
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	c := w.config(7)
	c.Machine = static.MachineID()
	path := filepath.Join(w.dir, "worker-7.state")
	for what, prepare := range map[string]func(){
		"none":           func() {},
		"damaged":        func() { os.WriteFile(path, []byte("rubbish"), 0o600) },
		"another layout": func() { static.Reset(w.dir, 7, t0, generator.Twitter().Fingerprint(), true) },
		"a year ahead":   func() { static.Reset(w.dir, 7, t0+year, fingerprint, true) },
	} {
		prepare()
		info, err := static.Reset(w.dir, 7, t0, fingerprint, true)
		if err != nil || info.HighWater != time.UnixMilli(t0).UTC() || info.Worker != 7 {
			t.Fatalf("%s: %+v, %v", what, info, err)
		}
		s, err := static.Open(c)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if g := mustAcquire(t, s, one); g.Lo != t0+near+1 {
			t.Errorf("%s: %+v", what, g)
		}
		if _, err := static.Reset(w.dir, 7, t0, fingerprint, true); !errors.Is(err, static.ErrInUse) {
			t.Errorf("%s: a running daemon's was reset: %v", what, err)
		}
		s.Close()
	}
	if _, err := static.Reset(w.dir, 7, t0, "with spaces", true); err == nil {
		t.Error("a fingerprint with spaces")
	}
	if _, err := static.Reset(filepath.Join(w.dir, "nowhere"), 7, t0, fingerprint, false); err == nil {
		t.Error("a directory that is not there")
	}
}

// A mark that can be read is not lowered by mistake, by nothing and of no layout.
func TestResetLowersNoMarkWithoutForce(t *testing.T) {
	w := newWorld(t)
	other := generator.Twitter().Fingerprint()
	for _, old := range []string{fingerprint, other} {
		if _, err := static.Reset(w.dir, 7, t0, old, true); err != nil {
			t.Fatal(err)
		}
		_, err := static.Reset(w.dir, 7, t0-1500, fingerprint, false)
		var lowered *static.LoweredError
		if !errors.As(err, &lowered) || lowered.By() != 1500*time.Millisecond || lowered.From.UnixMilli() != t0 {
			t.Errorf("%s: %v", old, err)
		}
		infos, err := static.Inspect(w.dir)
		if err != nil || len(infos) != 1 || infos[0].HighWater.UnixMilli() != t0 || infos[0].Fingerprint != old {
			t.Errorf("%s: after a refusal %+v, %v", old, infos, err)
		}
		for _, mark := range []int64{t0, t0 + 1} {
			if _, err := static.Reset(w.dir, 7, mark, fingerprint, false); err != nil {
				t.Errorf("%s: %d ms later: %v", old, mark-t0, err)
			}
		}
		if info, err := static.Reset(w.dir, 7, t0-1500, fingerprint, true); err != nil ||
			info.HighWater.UnixMilli() != t0-1500 {
			t.Errorf("%s: with force: %+v, %v", old, info, err)
		}
	}
	path := filepath.Join(w.dir, "worker-7.state")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1 // one copy is enough to know the mark
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := static.Reset(w.dir, 7, t0-2000, fingerprint, false); err == nil {
		t.Error("a mark that one copy has was lowered")
	}
	if err := os.WriteFile(path, b[:100], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := static.Reset(w.dir, 7, t0-2000, fingerprint, false); err != nil {
		t.Errorf("a file that cannot be read: %v", err)
	}
}
