package windows

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A handing is processes, of which one may take over the windows of another one.
type handing struct {
	holderBed
	holders map[string]*Holder
	last    uint64 // id
	other   uint64 // of the layout instagram
	given   *Handed
}

// begin opens the store of a process, which starts then or later.
func (b *handing) begin(succeeds, starts bool) func(name, kind string, words ...string) error {
	return func(name, kind string, words ...string) error {
		c := b.configure(kind, words...)
		c.Succeeds = succeeds
		h := New(c)
		b.t.Cleanup(func() { h.Stop(true) })
		b.holders[name] = h
		err := h.Open()
		if starts {
			h.Start()
		}
		return err
	}
}

// mints says whether an id is above all that were issued before.
func mints(source id.Source, h *Holder, last *uint64) string {
	run, err := source.Mint(id.At(h.Clock.Now()), 1, false)
	if err != nil {
		return "no id: " + err.Error()
	}
	larger := run.First > *last
	*last = run.First
	return map[bool]string{true: "a larger id", false: "a smaller id"}[larger]
}

// TestProcesses plays how the windows of one process come to another one, or do not, and what others are told of one.
func TestProcesses(t *testing.T) {
	steps.Run(t, "testdata/processes.txt", func(t *testing.T) steps.Calls {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		b := &handing{holderBed: holderBed{t: t, fake: &fake{}}, holders: map[string]*Holder{}}
		take := func(h *Holder, died bool, limit time.Duration) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began := time.Now()
			err := h.TakeOver(ctx, b.given, died)
			took := time.Since(began)
			if took > time.Second { // a store is tried again every 20 ms
				took = took.Truncate(time.Second)
			}
			return fmt.Sprint("after ", took), err
		}
		return steps.Calls{
			"opened": func(h *Holder, port int) { h.Opened(port) },
			"start":  func(h *Holder) { h.Start() },
			"leave":  func(h *Holder) { <-h.Leave() },
			"away":   b.away.Store,
			"announcement": func(h *Holder) string {
				a := h.announcement()
				return fmt.Sprintf("%q ready %v, TLS %v, version %s, %s, worker ids %v", a.Addr, a.Ready, a.TLS, a.Version,
					a.Fingerprint, a.Workers)
			},
			"peers": func(h *Holder) string {
				return fmt.Sprintf("announces %v, looks %v", h.Announcer() != nil, h.Checker() != nil)
			},
			"told": func() string { return fmt.Sprintf("%q", b.fake.told) },
			"lost": func() { // every lease, and no worker id is free
				b.fake.set(nil, workerid.ErrLost)
				b.fake.mu.Lock()
				b.fake.full = true
				b.fake.mu.Unlock()
			},
			"apart": func(h *Holder) string { // two others, of which a single one would refuse nothing, have other clocks
				b.fake.others = map[string]string{}
				for _, host := range []string{"x", "y"} {
					a := announcement.Announcement{Addr: host + ":1", Ready: true, Fingerprint: "f1"}
					b.fake.others[host] = a.String()
				}
				c := h.peers.checker
				if c == nil {
					return "nobody looks"
				}
				c.Ask = func(context.Context, string, bool) (announce.Reply, error) {
					return announce.Reply{Ahead: time.Hour}, nil
				}
				return fmt.Sprintf("confirmed within %v, refuses %v", c.Confirm, c.Refuse)
			},
			"holders": b.holders,
			"begin":   b.begin(false, true),
			"succeed": b.begin(true, true),
			"open":    b.begin(false, false),
			"sleep":   time.Sleep,
			"mint":    func(h *Holder) string { return mints(h.Issuer.Source(0), h, &b.last) },
			"mint-other": func(h *Holder) (string, error) {
				k, err := h.Issuer.Kind(kinds.Definition{Kind: kinds.Snowflake, Layout: "instagram"})
				if err != nil {
					return "", err
				}
				return mints(k.Source(0), h, &b.other), nil
			},
			"worker": func(h *Holder) uint64 { return h.c.Layout.Decompose(b.last).Worker },
			"status": func(h *Holder) string { return h.Status() },
			"skip": func(h *Holder, d time.Duration) error {
				return h.Issuer.Generator(0).Skip(h.Clock.Now() + d.Milliseconds())
			},
			"ahead": func(h *Holder, d time.Duration) { h.Clock.SetAhead(d) },
			"clock": func(h *Holder) string { return fmt.Sprint("ahead ", h.Clock.Ahead()) },
			"give": func(h *Holder) (string, error) {
				given, err := h.GiveAway()
				b.given = &given
				floor := time.Duration(given.Floor-h.Clock.Now()) * time.Millisecond
				return fmt.Sprintf("floor in %v, ahead %v, %d places", floor, given.Ahead, len(given.Places)), err
			},
			"floor": func(h *Holder, d time.Duration) { b.given = &Handed{Floor: h.Clock.Now() + d.Milliseconds()} },
			"carried": func(h *Holder) bool { // the places of other layouts
				all := h.Issuer.Places()
				return len(all) == 1 && all[0].Next >= b.given.Places[0].Next
			},
			"behind": func(h *Holder) string { // what was issued, and not with the clock
				return fmt.Sprint(h.Issuer.Position() > b.given.Floor, " ", h.Clock.Now() <= b.given.Floor)
			},
			"take":         func(h *Holder) (string, error) { return take(h, false, 24*time.Hour) },
			"take-of-dead": func(h *Holder) (string, error) { return take(h, true, 24*time.Hour) },
			"take-for":     take,
			"back":         func(h *Holder, served bool) error { return h.TakeBack(t.Context(), served) },
			"stop":         func(h *Holder) { h.Stop(true) },
			"stop-after":   func(h *Holder, d time.Duration) { time.AfterFunc(d, func() { h.Stop(true) }) },
			"let-go": func(h *Holder) { // as if it were to take over again
				h.end()
				h.store.Close()
			},
			"full": func(h *Holder) { // its disk
				h.store = b.fake
				b.fake.set(errors.New("the disk is full"), nil)
			},
			"calls": b.fake.calls,
			"last-announced": func() string {
				last := b.fake.notes[len(b.fake.notes)-2:]
				return fmt.Sprintf("ready %v, then ready %v", last[0].Ready, last[1].Ready)
			},
			"log": func() string { return b.besides() },
		}
	})
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
