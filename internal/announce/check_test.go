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
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A company is a directory with peers whose replies are made by hand. An address without one does not
// answer.
type company struct {
	directory
	*Checker
	log     *bytes.Buffer
	mu      sync.Mutex
	replies map[string]Reply
	asked   []string
	own     []uint64
}

// meet makes a company whose peers a:1, b:1 ... have these clocks, worker ids 1, 2 ... and settings f.
// The Checker's own worker id is 100.
func meet(ahead ...time.Duration) *company {
	c := &company{log: new(bytes.Buffer), replies: map[string]Reply{}, own: []uint64{100}}
	for i, d := range ahead {
		addr := fmt.Sprintf("%c:1", 'a'+i)
		c.put(addr, announcement.Announcement{Addr: addr, Ready: true, Fingerprint: "f", Workers: []uint64{uint64(i + 1)}})
		c.replies[addr] = Reply{Ahead: d, Workers: []uint64{uint64(i + 1)}, Fingerprint: "f"}
	}
	c.Checker = &Checker{
		Directory: &c.directory, Name: "me", Confirm: 11 * time.Second, Refuse: true,
		Log: slog.New(slog.NewTextHandler(c.log, nil)),
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

func (c *company) put(name string, a announcement.Announcement) {
	c.Announce(context.Background(), name, a.String())
}

// waits announces a daemon that waits for a worker id. It answers.
func (c *company) waits(addr string, ahead time.Duration) {
	c.put(addr, announcement.Announcement{Addr: addr, Fingerprint: "f"})
	c.replies[addr] = Reply{Ahead: ahead, Fingerprint: "f"}
}

// TestAdmission: the median of those that answer decides at the start, and nothing else.
func TestAdmission(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name   string
		peers  *company
		change func(*company)
		want   error    // nil = admitted
		says   []string // in the error
	}{
		{"alone", meet(), nil, nil, nil},
		{"among good clocks", meet(0, time.Second, -time.Second), nil, nil, nil},
		{"at the limit", meet(maxClockDifference), nil, nil, nil},
		{"beyond it", meet(maxClockDifference+1, hour/300), nil, workerid.ErrSkew, []string{"clocks: ", "a:1 by 10s"}},
		{"one wrong that came first", meet(hour), nil, nil, nil},
		{"two wrong that do not agree", meet(hour, 2*hour), nil, nil, nil},
		{"two wrong either way", meet(-hour, hour), nil, nil, nil},
		{"two that just agree", meet(hour, hour+maxClockDifference), nil, workerid.ErrSkew, []string{"1h0m10s"}},
		{"two that just do not", meet(hour, hour+maxClockDifference+1), nil, nil, nil},
		{"three, of which none agree", meet(hour, 2*hour, 3*hour), nil, nil, nil},
		{"three, of which two agree", meet(hour, hour, 3*hour), nil, workerid.ErrSkew, []string{"by 1h0m0s in"}},
		{"behind by too much", meet(-11*time.Second, -12*time.Second), nil, workerid.ErrSkew,
			[]string{"by -11s in the median"}},
		{"one wrong of two", meet(0, hour), nil, nil, nil},
		{"one wrong of three", meet(0, -hour*99999, 0), nil, nil, nil},
		{"two wrong of three", meet(0, hour, hour), nil, workerid.ErrSkew,
			[]string{"a:1 by 0s, b:1 by 1h0m0s, c:1 by 1h0m0s"}},
		{"many wrong", meet(hour, hour, hour, hour, hour), nil, workerid.ErrSkew, []string{"c:1 by 1h0m0s and 2 more"}},
		{"nobody answers", meet(hour, hour), func(c *company) { clear(c.replies) }, nil, nil},
		{"the wrong ones do not answer", meet(hour, hour, 0), func(c *company) {
			delete(c.replies, "a:1")
			delete(c.replies, "b:1")
		}, nil, nil},
		{"no list", meet(hour), func(c *company) { c.set(errors.New("no quorum"), false) }, nil, nil},
		{"a wrong one that is not ready", meet(hour), func(c *company) { c.waits("a:1", hour) }, nil, nil},
		{"two wrong that are not ready", meet(), func(c *company) {
			c.waits("x:1", hour)
			c.waits("y:1", hour)
		}, workerid.ErrSkew, []string{"x:1 by 1h"}},
		{"one wrong, and others that wait", meet(hour), func(c *company) { c.waits("x:1", 0) }, nil, nil},
		{"two wrong, and more that wait", meet(hour, hour), func(c *company) {
			c.waits("x:1", 0)
			c.waits("y:1", 0)
		}, nil, nil},
		{"one good, and those that wait have other settings", meet(0), func(c *company) {
			c.waits("x:1", 0)
			c.waits("y:1", 0)
			c.replies["x:1"], c.replies["y:1"] = Reply{Fingerprint: "g"}, Reply{Fingerprint: "g"}
		}, nil, nil},
		{"an earlier run of its own", meet(), func(c *company) {
			c.put("old", announcement.Announcement{Addr: "me:1", Ready: true, Fingerprint: "f"})
			c.replies["me:1"] = Reply{Ahead: hour}
		}, nil, nil},
		{"its own announcement", meet(), func(c *company) {
			c.put("me", announcement.Announcement{Addr: "elsewhere:1", Ready: true, Fingerprint: "f"})
			c.replies["elsewhere:1"] = Reply{Ahead: hour}
		}, nil, nil},
		{"other settings", meet(0), func(c *company) {
			c.replies["a:1"] = Reply{Fingerprint: "g"}
		}, workerid.ErrForeignPool, []string{"settings: ", `a:1 has "g"`, `this daemon, "f"`}},
		{"other settings of one of two", meet(0, 0), func(c *company) {
			c.replies["a:1"] = Reply{Fingerprint: "g"}
		}, nil, nil},
		{"other settings of one that does not answer", meet(), func(c *company) {
			c.put("x", announcement.Announcement{Addr: "x:1", Ready: true, Fingerprint: "g"})
		}, nil, nil},
		{"its own worker id", meet(0), func(c *company) {
			c.replies["a:1"] = Reply{Workers: []uint64{100}, Fingerprint: "f"}
		}, nil, nil},
		{"wrong, but only warned of", meet(hour), func(c *company) { c.Refuse = false }, nil, nil},
	} {
		if c.change != nil {
			c.change(c.peers)
		}
		err := c.peers.Admit(t.Context())
		if !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		for _, s := range c.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: %v does not say %q", c.name, err, s)
			}
		}
		if c.want != nil {
			var hint interface{ RetryAfter() time.Duration }
			if !errors.As(err, &hint) || hint.RetryAfter() <= 0 {
				t.Errorf("%s: %v does not say when to retry", c.name, err)
			}
			clear(c.peers.replies) // the wrong ones have gone
			if err := c.peers.Admit(t.Context()); err != nil {
				t.Errorf("%s: and afterwards %v", c.name, err)
			}
		}
	}
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

// TestAlarms: each kind, when it begins and when it is over. What may be a hand-over must last.
func TestAlarms(t *testing.T) {
	for _, x := range []struct {
		kind  Kind
		lasts bool
		wrong func(*company)
		says  string
	}{
		{Clock, false, func(c *company) {
			c.replies["a:1"] = Reply{Ahead: -time.Hour, Workers: []uint64{1}, Fingerprint: "f"}
		}, "a:1 by -1h0m0s"},
		{Fingerprint, false, func(c *company) {
			c.put("x", announcement.Announcement{Addr: "x:1", Fingerprint: "g"})
		}, `x:1 has "g"`},
		{WorkerID, true, func(c *company) {
			c.put("x", announcement.Announcement{Addr: "x:1", Fingerprint: "f", Workers: []uint64{99, 100}})
		}, "x:1 has 100"},
		{WorkerID, true, func(c *company) {
			c.replies["a:1"] = Reply{Workers: []uint64{1, 100}, Fingerprint: "f"}
		}, "a:1 has 100"},
		{Address, true, func(c *company) {
			c.replies["a:1"] = Reply{Workers: []uint64{5}, Fingerprint: "f"}
		}, "a:1 announced [1] and has [5]"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := meet(0)
			if err := c.Admit(t.Context()); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go c.Run(ctx)
			time.Sleep(time.Hour)
			synctest.Wait()
			if f := c.Figures(); f.Alarms != [NumKinds]bool{} || len(c.Notes()) != 0 ||
				strings.Contains(c.log.String(), "alarm") {
				t.Errorf("%v: alarms without a reason: %v, %v", x.kind, f, c.Notes())
			}
			before := c.replies["a:1"]
			c.mu.Lock()
			x.wrong(c)
			c.mu.Unlock()
			began := time.Now()
			for !c.Figures().Alarms[x.kind] && time.Since(began) < time.Hour {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			want := [NumKinds]bool{}
			want[x.kind] = true
			if f := c.Figures(); f.Alarms != want {
				t.Errorf("%v: alarms %v", x.kind, f.Alarms)
			}
			if took := time.Since(began); took > checkInterval*6/5+c.Confirm+time.Second || x.lasts && took < c.Confirm {
				t.Errorf("%v: after %v", x.kind, took)
			}
			if n := c.Notes(); len(n) != 1 || !strings.Contains(n[0], x.says) ||
				strings.Count(c.log.String(), "alarm about peers") != 1 || !strings.Contains(c.log.String(), "level=ERROR") {
				t.Errorf("%v: notes %q, log %s", x.kind, n, c.log)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if strings.Count(c.log.String(), "alarm about peers") != 1 || !c.Figures().Alarms[x.kind] {
				t.Errorf("%v: it did not last, or was logged again: %s", x.kind, c.log)
			}
			c.mu.Lock()
			c.replies["a:1"] = before
			c.mu.Unlock()
			c.Announce(t.Context(), "x", "")
			time.Sleep(2 * checkInterval)
			synctest.Wait()
			if f := c.Figures(); f.Alarms != [NumKinds]bool{} || !strings.Contains(c.log.String(), "alarm about peers is over") {
				t.Errorf("%v: afterwards %v, %s", x.kind, f.Alarms, c.log)
			}
		})
	}
}

// TestOneClockIsAnAlarm: a clock that no other one confirms refuses nothing, and is told of.
func TestOneClockIsAnAlarm(t *testing.T) {
	c := meet(-time.Hour)
	if err := c.Admit(t.Context()); err != nil {
		t.Error(err)
	}
	if n := c.Notes(); len(n) != 1 || !strings.Contains(n[0], "a:1 by -1h0m0s; no two of them agree") {
		t.Errorf("%q", n)
	}
}

// TestAHandOverIsNoAlarm: a worker id that a peer still announced when this daemon acquired it.
func TestAHandOverIsNoAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(0)
		c.Refuse = false
		c.own = []uint64{1}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go c.Run(ctx)
		time.Sleep(c.Confirm / 2)
		c.put("a:1", announcement.Announcement{Addr: "a:1", Ready: true, Fingerprint: "f"})
		c.mu.Lock()
		c.replies["a:1"] = Reply{Fingerprint: "f"}
		c.mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if strings.Contains(c.log.String(), "alarm") {
			t.Error(c.log)
		}
	})
}

// TestTheFigures: each is another number.
func TestTheFigures(t *testing.T) {
	c := meet(1500*time.Millisecond, 3*time.Second, 5*time.Second, time.Second, time.Second)
	delete(c.replies, "d:1")
	delete(c.replies, "e:1")
	c.put("f:1", announcement.Announcement{Addr: "f:1"})
	c.put("g:1", announcement.Announcement{Addr: "g:1"})
	c.Announce(t.Context(), "rubbish", "{")
	c.Announce(t.Context(), "more rubbish", "[[[[")
	c.put("me", announcement.Announcement{Addr: "me:1"})
	c.check(t.Context())
	want := Figures{Peers: 7, Unreadable: 2, Asked: 7, Answered: 3, Difference: 3 * time.Second}
	want.Alarms[Fingerprint] = true
	if f := c.Figures(); f != want {
		t.Errorf("%+v, want %+v", f, want)
	}
	c = meet(1, 2, 4, 8)
	if c.check(t.Context()); c.Figures().Difference != 2 {
		t.Errorf("of two in the middle it took %d", c.Figures().Difference)
	}
	c = meet(-1, -2, -4, -8)
	if c.check(t.Context()); c.Figures().Difference != -2 {
		t.Errorf("of two in the middle it took %d", c.Figures().Difference)
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
