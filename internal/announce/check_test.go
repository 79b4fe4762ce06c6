package announce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A company is a directory with peers whose replies are made by hand. An address without one does not
// answer.
type company struct {
	directory
	*Checker
	mu      sync.Mutex // guards what follows
	log     bytes.Buffer
	replies map[string]Reply
	asked   []string
	own     []uint64
}

// meet makes a company whose peers a:1, b:1 ... have these clocks, worker ids 1, 2 ... and settings f.
// The Checker's own worker id is 100.
func meet(ahead ...time.Duration) *company {
	c := &company{replies: map[string]Reply{}, own: []uint64{100}}
	for i, d := range ahead {
		addr := fmt.Sprintf("%c:1", 'a'+i)
		c.put(addr, announcement.Announcement{Addr: addr, Ready: true, Fingerprint: "f", Workers: []uint64{uint64(i + 1)}})
		c.replies[addr] = Reply{Ahead: d, Workers: []uint64{uint64(i + 1)}, Fingerprint: "f"}
	}
	c.Checker = &Checker{
		Directory: &c.directory, Name: "me", Confirm: 11 * time.Second, Refuse: true,
		Log: slog.New(slog.NewTextHandler(c, nil)),
		Self: func() announcement.Announcement {
			return announcement.Announcement{Addr: "me:1", Fingerprint: "f", Workers: c.own}
		},
		Ask: func(ctx context.Context, address string, _ bool) (Reply, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.asked = append(c.asked, address)
			r, ok := c.replies[address]
			if !ok || ctx.Err() != nil {
				return r, errors.New("no route")
			}
			return r, nil
		},
	}
	return c
}

// Write takes a line of the log.
func (c *company) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(line)
}

func (c *company) put(name string, a announcement.Announcement) {
	c.Announce(context.Background(), name, a.String())
}

// calls are what the script of the checker does. The peers of "meet" have these clocks; "wait" announces one that waits
// for a worker id, and "reply" has one answer so.
func (c *company) calls(t *testing.T) steps.Calls {
	locked := func(f func()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		f()
	}
	put := func(name, addr, fingerprint string, ready bool, workers ...uint64) {
		c.put(name, announcement.Announcement{
			Addr: addr, Fingerprint: fingerprint, Ready: ready, Workers: workers, At: time.Now().UnixMilli()})
	}
	reply := func(addr string, ahead time.Duration, fingerprint string, workers ...uint64) {
		locked(func() { c.replies[addr] = Reply{Ahead: ahead, Fingerprint: fingerprint, Workers: workers} })
	}
	return steps.Calls{
		"meet": func(ahead ...time.Duration) {
			for i, d := range ahead {
				addr := fmt.Sprintf("%c:1", 'a'+i)
				put(addr, addr, "f", true, uint64(i+1))
				reply(addr, d, "f", uint64(i+1))
			}
		},
		"wait": func(addr string, ahead time.Duration) {
			put(addr, addr, "f", false)
			reply(addr, ahead, "f")
		},
		"announce": put,
		"text":     func(name, text string) { c.Announce(t.Context(), name, text) },
		"reply":    reply,
		"silent":   func(addr string) { locked(func() { delete(c.replies, addr) }) },
		"unlisted": func() { c.set(errors.New("no quorum"), false) },
		"warn":     func() { c.Refuse = false },
		"own":      func(workers ...uint64) { c.own = workers },
		"admit": func() (string, error) {
			err := c.Admit(t.Context())
			var hint interface{ RetryAfter() time.Duration }
			if !errors.As(err, &hint) {
				return "", err
			}
			what := map[bool]string{errors.Is(err, workerid.ErrSkew): "skew", errors.Is(err, workerid.ErrForeignPool): "foreign"}
			return fmt.Sprint(what[true], ", again after ", hint.RetryAfter()), err
		},
		"check": func() { c.check(t.Context()) },
		"run":   func() { go c.Run(t.Context()) },
		"sleep": func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		},
		"figures": func() string { return fmt.Sprintf("%+v", c.Figures()) },
		"notes":   func() string { return strings.Join(c.Notes(), "\n") },
		"log": func() (text string) {
			locked(func() {
				text = script.Logged(c.log.String())
				c.log.Reset()
			})
			return text
		},
	}
}

func TestChecks(t *testing.T) {
	steps.Run(t, "testdata/checks.txt", func(t *testing.T) steps.Calls { return meet().calls(t) })
}

// granting is a store whose Acquire succeeds.
type granting struct {
	workerid.Store
	calls int
}

func (g *granting) Acquire(context.Context, workerid.Request) (workerid.Grant, error) {
	g.calls++
	return workerid.Grant{Worker: 7}, nil
}

// TestTheGateIsOnlyForTheStart: nothing is acquired before the check passes, and later clocks stop
// nobody.
func TestTheGateIsOnlyForTheStart(t *testing.T) {
	c, s := meet(time.Hour, time.Hour), new(granting)
	gate := c.Gate(s)
	if g, err := gate.Acquire(t.Context(), workerid.Request{}); !errors.Is(err, workerid.ErrSkew) || g.Worker != 0 ||
		s.calls != 0 {
		t.Errorf("refused, it acquired %+v, %v", g, err)
	}
	c.replies["a:1"], c.replies["b:1"] = Reply{Fingerprint: "f"}, Reply{Fingerprint: "f"}
	if g, err := gate.Acquire(t.Context(), workerid.Request{}); err != nil || g.Worker != 7 || s.calls != 1 {
		t.Errorf("admitted, it acquired %+v, %v", g, err)
	}
	c.replies["a:1"] = Reply{Ahead: time.Hour}
	asked := len(c.asked)
	if _, err := gate.Acquire(t.Context(), workerid.Request{}); err != nil || len(c.asked) != asked {
		t.Errorf("later: %v, %d peers asked", err, len(c.asked)-asked)
	}
	c = meet(0)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	s = new(granting)
	if _, err := c.Gate(s).Acquire(over, workerid.Request{}); !errors.Is(err, workerid.ErrNoneYet) || s.calls != 0 ||
		c.Figures().Answered != 1 {
		t.Errorf("when the time of the call is used up: %v, %d calls", err, s.calls)
	}
}

// TestTenThousandAnnouncements: only so many peers are asked, all at once, and messages stay short.
func TestTenThousandAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet()
		c.own = []uint64{1}
		for i := range 10_000 {
			addr := fmt.Sprintf("h%d:1", i)
			c.put(addr, announcement.Announcement{Addr: addr, Ready: true, Workers: []uint64{1},
				Fingerprint: strings.Repeat("g", 100)})
		}
		asked := make(chan string, 10_000)
		c.Ask = func(_ context.Context, address string, _ bool) (Reply, error) {
			asked <- address
			time.Sleep(askTimeout)
			return Reply{}, errors.New("slow")
		}
		c.Confirm = 0
		began := time.Now()
		if err := c.Admit(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > askTimeout || len(asked) != askedAtOnce {
			t.Errorf("%d were asked, in %v", len(asked), took)
		}
		if f := c.Figures(); f.Peers != 10_000 || f.Asked != askedAtOnce || f.Answered != 0 {
			t.Errorf("%+v", f)
		}
		for _, n := range c.Notes() {
			if len(n) > 4000 || !strings.Contains(n, "more") {
				t.Errorf("a note of %d bytes: %.300s", len(n), n)
			}
		}
		if len(c.Notes()) != 2 {
			t.Errorf("%d notes", len(c.Notes()))
		}
		first := map[string]bool{}
		for range askedAtOnce {
			first[<-asked] = true
		}
		c.suspects[WorkerID], c.suspects[Address] = nil, nil
		c.check(t.Context())
		again := 0
		for range askedAtOnce {
			if first[<-asked] {
				again++
			}
		}
		if again == askedAtOnce {
			t.Error("the same peers are always asked")
		}
	})
}

// TestASuspectIsAskedAgain: however many peers there are.
func TestASuspectIsAskedAgain(t *testing.T) {
	c := meet()
	for i := range 200 {
		addr := fmt.Sprintf("h%d:1", i)
		c.put(addr, announcement.Announcement{Addr: addr, Ready: true, Fingerprint: "f", Workers: []uint64{1}})
		c.replies[addr] = Reply{Fingerprint: "f", Workers: []uint64{2}}
	}
	c.check(t.Context())
	first := slices.Clone(c.asked)
	c.asked = nil
	c.check(t.Context())
	slices.Sort(first)
	if slices.Sort(c.asked); !slices.Equal(first, c.asked) || len(first) != askedAtOnce {
		t.Errorf("first %v, then %v", first, c.asked)
	}
}
