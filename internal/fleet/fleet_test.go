package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
)

// A company is a Fleet whose directory and daemons are made by hand. A daemon without a reply does not answer
// within its time.
type company struct {
	*Fleet
	mu      sync.Mutex
	entries map[string]string
	err     error // of the directory
	lists   int
	replies map[string]announce.Reply
	asked   map[string][]time.Time
	now     int // how many are asked
	most    int
}

// meet makes a company of daemons that are announced and answer.
func meet(t *testing.T, addresses ...string) *company {
	c := &company{entries: map[string]string{}, replies: map[string]announce.Reply{}, asked: map[string][]time.Time{}}
	for _, addr := range addresses {
		c.put(addr, announcement.Announcement{Addr: addr, Ready: true, Version: "3.0.0"})
		c.replies[addr] = announce.Reply{Version: "3.1.0", Up: time.Hour}
	}
	c.Fleet = New(Config{
		Directory: c, Name: "me", Self: func() announcement.Announcement { return announcement.Announcement{Addr: "me:1"} },
		Ask: c.ask, Log: slog.New(slog.DiscardHandler),
	})
	c.Start()
	t.Cleanup(c.Stop)
	return c
}

func (c *company) put(name string, a announcement.Announcement) { c.entries[name] = a.String() }

func (c *company) Announce(context.Context, string, string) error { return nil }

func (c *company) Peers(context.Context) (map[string]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	return maps.Clone(c.entries), c.err
}

func (c *company) ask(ctx context.Context, address string, _ bool) (announce.Reply, error) {
	c.mu.Lock()
	c.asked[address] = append(c.asked[address], time.Now())
	c.now++
	c.most = max(c.most, c.now)
	reply, answers := c.replies[address]
	c.mu.Unlock()
	wait := time.Second
	if answers {
		wait = time.Millisecond
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		answers = false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	if !answers {
		return announce.Reply{}, errors.New("no route")
	}
	return reply, nil
}

// asks returns how often all together were asked.
func (c *company) asks() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.asked {
		n += len(at)
	}
	return n
}

// times returns when each was asked.
func (c *company) times() map[string][]time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string][]time.Time{}
	for addr, at := range c.asked {
		all[addr] = slices.Clone(at)
	}
	return all
}

// counts returns how many lists were read, and how many daemons were asked at the same time.
func (c *company) counts() (lists, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists, c.most
}

// states returns the state of each daemon by its address.
func (c *company) states(patience time.Duration) map[string]string {
	states := map[string]string{}
	for _, m := range c.Look(patience).Members {
		states[m.Addr] = m.State
	}
	return states
}

// TestDaemonsAreAskedWhileSomebodyLooks: once in five seconds however many look, and no more when the last has gone.
func TestDaemonsAreAskedWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "a:1", "b:1")
		time.Sleep(time.Hour)
		if lists, _ := c.counts(); c.asks() != 0 || lists != 0 {
			t.Errorf("nobody looks, and %d are asked, %d lists read", c.asks(), lists)
		}
		begun := time.Now()
		for time.Since(begun) < time.Minute {
			for range 10 {
				go c.Look(time.Second)
			}
			c.Look(0)
			time.Sleep(300 * time.Millisecond)
		}
		time.Sleep(time.Second)
		for addr, at := range c.times() {
			if n := len(at); n < 11 || n > 13 {
				t.Errorf("%s was asked %d times in a minute", addr, n)
			}
			for i := range at[1:] {
				if gap := at[i+1].Sub(at[i]); gap < fresh {
					t.Errorf("%s was asked again after %v", addr, gap)
				}
			}
		}
		before := c.asks()
		lists, _ := c.counts()
		if lists > 13 {
			t.Errorf("%d lists were read", lists)
		}
		time.Sleep(time.Hour)
		if now, _ := c.counts(); c.asks() != before || now != lists {
			t.Errorf("nobody looks any more, and %d are asked, %d lists read", c.asks()-before, now-lists)
		}
	})
}

// TestOneThatHangsDelaysNobody: the others are there at once, and the one is told of.
func TestOneThatHangsDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "a:1", "b:1", "c:1")
		delete(c.replies, "b:1")
		want := map[string]string{"a:1": Ready, "b:1": Asking, "c:1": Ready}
		if got := c.states(100 * time.Millisecond); !maps.Equal(got, want) {
			t.Errorf("%v", got)
		}
		began := time.Now()
		want["b:1"] = "no answer"
		if got := c.states(time.Minute); !maps.Equal(got, want) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", got, time.Since(began))
		}
		time.Sleep(fresh)
		if got := c.states(0); !maps.Equal(got, want) {
			t.Errorf("what was known is not shown while it is asked again: %v", got)
		}
		c.mu.Lock()
		c.replies["b:1"] = announce.Reply{}
		c.mu.Unlock()
		time.Sleep(2 * fresh)
		if got := c.states(time.Minute)["b:1"]; got != Ready {
			t.Errorf("when it answers again it is %q", got)
		}
	})
}

// TestTwoHundredThatDoNotAnswer: only so many are asked at a time, and from the second time on those that answer come
// first.
func TestTwoHundredThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "a:1", "b:1", "c:1")
		for i := range 200 {
			addr := fmt.Sprintf("dead%d:1", i)
			c.put(addr, announcement.Announcement{Addr: addr, Ready: true})
		}
		began := time.Now()
		c.Look(time.Minute)
		_, most := c.counts()
		if took := time.Since(began); took > 4*time.Second+10*time.Millisecond || most != atOnce {
			t.Errorf("all were asked within %v, %d at a time", took, most)
		}
		time.Sleep(time.Minute)
		began = time.Now()
		c.Look(100 * time.Millisecond)
		for _, addr := range []string{"a:1", "b:1", "c:1"} {
			if at := c.times()[addr]; len(at) != 2 || at[1].Sub(began) > 10*time.Millisecond {
				t.Errorf("%s was asked at %v", addr, at)
			}
		}
		before := c.asks()
		time.Sleep(time.Hour) // those whose turn had not come are asked for this look, and none a second time
		if n := c.asks() - before; n > 200 {
			t.Errorf("%d were asked after the look", n)
		}
	})
}

// TestWhoLeavesIsForgotten: and one that comes back at once is not asked sooner for that.
func TestWhoLeavesIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "a:1", "b:1")
		c.Look(time.Minute)
		entry := c.entries["b:1"]
		for i := range 60 {
			time.Sleep(500 * time.Millisecond)
			c.mu.Lock()
			if delete(c.entries, "b:1"); i%2 == 0 {
				c.entries["b:1"] = entry
			}
			c.mu.Unlock()
			c.Look(100 * time.Millisecond)
		}
		at := c.times()["b:1"]
		for i := range at[1:] {
			if gap := at[i+1].Sub(at[i]); gap < fresh {
				t.Errorf("asked again after %v", gap)
			}
		}
		time.Sleep(fresh)
		if got := c.states(time.Minute); !maps.Equal(got, map[string]string{"a:1": Ready}) {
			t.Errorf("%v", got)
		}
	})
}

// TestWhoIsListed: each daemon once, this one not, and those that cannot be read are counted.
func TestWhoIsListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "10.0.0.9:1", "10.0.0.10:1", "10.0.0.9:12")
		c.put("me", announcement.Announcement{Addr: "elsewhere:1"})
		c.put("an earlier run", announcement.Announcement{Addr: "ME:01"})
		c.put("again", announcement.Announcement{Addr: "10.0.0.9:1", Version: "2", At: 7})
		c.put("again, written otherwise", announcement.Announcement{Addr: "10.0.0.9:001", Version: "3", At: 3})
		c.put("no address yet", announcement.Announcement{Version: "4"})
		c.entries["rubbish"] = "{"
		r := c.Look(time.Minute)
		var got []string
		for _, m := range r.Members {
			got = append(got, m.Addr)
		}
		if want := []string{"10.0.0.9:1", "10.0.0.9:12", "10.0.0.10:1", ""}; !slices.Equal(got, want) || r.Unreadable != 1 {
			t.Errorf("%q, %d unreadable", got, r.Unreadable)
		}
		if asked := c.times(); len(asked) != 3 || len(asked["10.0.0.9:1"]) != 1 {
			t.Errorf("%v", asked)
		}
		c.mu.Lock()
		c.err = errors.New("no answer")
		c.mu.Unlock()
		time.Sleep(fresh)
		if r := c.Look(time.Minute); len(r.Members) != 4 || r.Problem == "" {
			t.Errorf("without the store: %+v", r)
		}
	})
}

// TestTenThousandAnnouncements: a part is listed and asked.
func TestTenThousandAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t)
		for i := range 10_000 {
			addr := fmt.Sprintf("h%d:1", i)
			c.put(addr, announcement.Announcement{Addr: addr})
		}
		r := c.Look(time.Hour)
		if _, most := c.counts(); len(r.Members) != maxMembers || r.More != 10_000-maxMembers || r.Problem != Cut ||
			most > atOnce {
			t.Errorf("%d members, %d more, %d asked at a time", len(r.Members), r.More, most)
		}
	})
}

// TestNobodyHidesBehindOthersNames: however many names are announced where nobody answers, those that answer are found
// and stay, also when such names come later, and have room on.
func TestNobodyHidesBehindOthersNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "m:1", "n:1", "o:1")
		fakes := func(from, to int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			for i := from; i < to; i++ {
				for _, letter := range []string{"a", "z"} { // before and behind
					addr := fmt.Sprint(letter, i, ":1")
					c.put(addr, announcement.Announcement{Addr: addr, At: 1e12})
				}
			}
		}
		fakes(0, 2*maxMembers)
		ready := func(r Roster) (n int) {
			for _, m := range r.Members {
				if m.State == Ready {
					n++
				}
			}
			return n
		}
		looks := 1
		for ready(c.Look(time.Minute)) < 3 {
			if looks++; looks > 1000 { // each finds one in four
				t.Fatal("they are not found")
			}
			time.Sleep(fresh)
		}
		for i := range 4 {
			fakes(4000+100*i, 4100+100*i)
			time.Sleep(fresh)
			if r := c.Look(time.Minute); ready(r) != 3 || len(r.Members) != maxMembers || r.Problem != Cut {
				t.Fatalf("%d of 3 are there, of %d members", ready(r), len(r.Members))
			}
		}
		c.mu.Lock()
		c.put("n:1", announcement.Announcement{Addr: "n:2"})
		c.replies["n:2"] = announce.Reply{}
		c.mu.Unlock()
		time.Sleep(fresh)
		if r := c.Look(time.Minute); ready(r) < 2 || ready(r) > 3 {
			t.Errorf("%d are ready after one has moved", ready(r))
		}
	})
}

// A hider is a directory that leaves some out, or refuses.
type hider struct {
	*company
	left  int
	known *[]string
}

func (h hider) Listing(ctx context.Context, known []string) (map[string]string, int, error) {
	*h.known = known
	all, err := h.Peers(ctx)
	return all, h.left, err
}

type refusal struct{ error }

func (refusal) Reason() string { return "NOPERM, for the test" }

// TestWhatTheStoreLeavesOut is counted and told, and so is why it says nothing.
func TestWhatTheStoreLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "a:1", "b:1")
		delete(c.replies, "b:1")
		var known []string
		c.c.Directory = hider{c, 7, &known}
		if r := c.Look(time.Minute); len(r.Members) != 2 || r.More != 7 || r.Problem != Cut || known != nil {
			t.Errorf("%+v, %q are known", r, known)
		}
		c.mu.Lock()
		c.err = fmt.Errorf("redis: %w", refusal{errors.New("user ann")})
		c.mu.Unlock()
		time.Sleep(fresh)
		const want = "The store refuses to say who is announced: NOPERM, for the test."
		if r := c.Look(time.Minute); len(r.Members) != 2 || r.Problem != want || !slices.Equal(known, []string{"a:1"}) {
			t.Errorf("%+v, %q are known", r, known)
		}
	})
}

// TestOneWorkerIDTwice: rows that share one are marked, if they have answered.
func TestOneWorkerIDTwice(t *testing.T) {
	ahead := new(Milliseconds)
	list := []Member{{Addr: "a:1", State: Ready, Ahead: ahead, Workers: []uint64{1, 2}},
		{Addr: "b:1", State: "no answer", Workers: []uint64{2}},
		{Addr: "c:1", State: Ready, Ahead: ahead, Workers: []uint64{3}},
		{Addr: "d:1", State: NotReady, Self: true, Workers: []uint64{7, 2}},
		{Addr: "e:1", Ahead: ahead, Workers: []uint64{2}}}
	Compare(list)
	for i, want := range []string{"same worker id as d:1", "", "", "same worker id as a:1", "same worker id as a:1"} {
		if list[i].Note != want {
			t.Errorf("%s: %q, want %q", list[i].Addr, list[i].Note, want)
		}
	}
	if got := list[3].Standing() + list[2].Standing(); got != "not ready, same worker id as a:1ready" {
		t.Error(got)
	}
}

// TestBeginningAndEnd: nobody is asked before Start and after Stop, and nobody waits.
func TestBeginningAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "a:1")
		c.started = false
		if before := time.Now(); len(c.Look(time.Minute).Members) != 0 || !time.Now().Equal(before) || c.lists != 0 {
			t.Error("it looked before it was started")
		}
		c.Start()
		delete(c.replies, "a:1")
		began := time.Now()
		time.AfterFunc(100*time.Millisecond, c.Stop)
		c.Look(time.Minute)
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("it waited %v", took)
		}
		time.Sleep(time.Minute)
		c.Look(time.Minute)
		if n := c.asks(); n != 1 {
			t.Errorf("%d asks", n)
		}
	})
}

// TestWhatIsShown: of an answer, of one without some facts, and of a liar.
func TestWhatIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := meet(t, "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1")
		yes, no, left, groups := true, false, 9*time.Second, 3
		c.put("10.0.0.2:1", announcement.Announcement{Addr: "10.0.0.2:1", Version: "\u202e2", Workers: []uint64{4},
			Ready: true})
		c.put("evil/@x:1", announcement.Announcement{Addr: "evil/@\u202e<b>:1"})
		c.replies["10.0.0.1:1"] = announce.Reply{Ahead: -1500 * time.Millisecond, Workers: []uint64{1, 2}, Ready: &yes,
			Version: "3.4.5", Up: time.Minute, Left: &left, Groups: &groups, HTTPBind: "NULL", HTTPPort: 8081}
		c.replies["10.0.0.2:1"] = announce.Reply{}
		c.replies["10.0.0.3:1"] = announce.Reply{Ready: &no}
		c.replies["evil/@\u202e<b>:1"] = announce.Reply{HTTPBind: "NULL", HTTPPort: 8081}
		text, err := json.Marshal(c.Look(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`{"addr":"10.0.0.1:1","self":false,"state":"ready","worker_ids":[1,2],"version":"3.4.5","clock_ahead_ms":-1500,` +
				`"window_left_ms":9000,"groups_led":3,"since":"1999-12-31T23:59:00Z","page":"http://10.0.0.1:8081/","note":""}`,
			`{"addr":"10.0.0.2:1","self":false,"state":"ready","worker_ids":null,"version":"?2","clock_ahead_ms":0,` +
				`"window_left_ms":null,"groups_led":null,"since":null,"page":"","note":""}`,
			`"10.0.0.3:1","self":false,"state":"not ready"`, `"addr":"evil/@?\u003cb\u003e:1"`,
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not have %s", text, want)
			}
		}
		if strings.Contains(string(text), "http://evil") {
			t.Errorf("a link leads elsewhere: %s", text)
		}
		var back Roster
		if err := json.Unmarshal(text, &back); err != nil || len(back.Members) != 4 ||
			time.Duration(*back.Members[0].Left) != left {
			t.Errorf("read again: %+v, %v", back, err)
		}
	})
}

// TestWhereThePageIs: at the address of the daemon, unless it is elsewhere or for its own host alone.
func TestWhereThePageIs(t *testing.T) {
	for _, c := range []struct {
		addr, bind string
		port       int
		want       string
	}{
		{"10.0.0.7:11212", "NULL", 8081, "http://10.0.0.7:8081/"},
		{"10.0.0.7:11212", "0.0.0.0", 8081, "http://10.0.0.7:8081/"},
		{"[2001:db8::7]:11212", "NULL", 8081, "http://[2001:db8::7]:8081/"},
		{"tuna.example:11212", "::", 1, "http://tuna.example:1/"},
		{"10.0.0.7:11212", "10.9.0.7", 8081, "http://10.9.0.7:8081/"}, {"10.0.0.7:11212", "127.0.0.1", 8081, ""},
		{"127.0.0.1:11212", "127.0.0.1", 8081, "http://127.0.0.1:8081/"}, {"tuna:11212", "::1", 8081, ""},
		{"10.0.0.7:11212", "NULL", 0, ""}, {"10.0.0.7:11212", "", 8081, ""}, {"10.0.0.7:11212", "javascript", 8081, ""},
		{"a/b:1", "NULL", 8081, ""}, {"a@b:1", "NULL", 8081, ""}, {"a?b:1", "NULL", 8081, ""},
		{"[fe80::1%25x]:1", "NULL", 8081, ""},
		{"", "NULL", 8081, ""},
	} {
		if got := pageOf(c.addr, announce.Reply{HTTPBind: c.bind, HTTPPort: c.port}); got != c.want {
			t.Errorf("%s, %s, %d: %q, want %q", c.addr, c.bind, c.port, got, c.want)
		}
	}
}
