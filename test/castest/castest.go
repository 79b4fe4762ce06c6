package castest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A Place is one that nobody has used, such as a chroot or a prefix of its own. It returns the driver
// of another daemon with each call. The suite closes them.
type Place func(t testing.TB) cas.Driver

// Run tests a driver. fresh makes a Place.
func Run(t *testing.T, fresh func(t testing.TB) Place) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Place)
	}{
		{"nothing is there at first", testEmpty},
		{"names of connections", testNames},
		{"as many records as allowed", testMost},
		{"texts as they are", testTexts},
		{"a key that is there, without a text", testBlank},
		{"a call for another connection is refused", testConnection},
		{"presences end with their sessions", testSessions},
		{"nobody overwrites what he has not seen", testContention},
		{"an ended context", testContext},
		{"after closing", testClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, fresh(t))
		})
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("the same as in memory, seed ", seed), func(t *testing.T) {
			t.Parallel()
			testSame(t, fresh(t), seed)
		})
	}
}

const (
	seeds = 4
	calls = 150 // of a seed
)

// patience is for one call on a busy machine.
const patience = time.Minute

// A side is a daemon's driver and its connection.
type side struct {
	cas.Driver
	t    testing.TB
	conn string
}

func (p Place) open(t testing.TB) *side {
	t.Helper()
	s := &side{Driver: p(t), t: t}
	t.Cleanup(func() { s.Close() })
	s.connect()
	return s
}

func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

func (s *side) connect() {
	s.t.Helper()
	ctx, cancel := within()
	defer cancel()
	var err error
	if s.conn, err = s.Connect(ctx); err != nil {
		s.t.Fatalf("Connect: %v", err)
	}
}

func (s *side) load() pool.View {
	s.t.Helper()
	ctx, cancel := within()
	defer cancel()
	v, err := s.Load(ctx, s.conn)
	if err != nil {
		s.t.Fatalf("Load: %v", err)
	}
	if v.Records == nil || v.Present == nil {
		s.t.Fatalf("Load: a map is nil: %+v", v)
	}
	return v
}

func (s *side) commit(c pool.Change) cas.Answer {
	s.t.Helper()
	ctx, cancel := within()
	defer cancel()
	a, err := s.Commit(ctx, s.conn, c)
	if err != nil {
		s.t.Fatalf("Commit: %v", err)
	}
	return a
}

func (s *side) announce(worker uint64, text string) {
	s.t.Helper()
	ctx, cancel := within()
	defer cancel()
	if err := s.Announce(ctx, s.conn, worker, text); err != nil {
		s.t.Fatalf("Announce(%d, %q): %v", worker, text, err)
	}
}

func (s *side) publish(name, text string) {
	s.t.Helper()
	ctx, cancel := within()
	defer cancel()
	if err := s.Publish(ctx, s.conn, name, text); err != nil {
		s.t.Fatalf("Publish(%q, %q): %v", name, text, err)
	}
}

func (s *side) peers() map[string]string {
	s.t.Helper()
	ctx, cancel := within()
	defer cancel()
	all, err := s.Peers(ctx, s.conn)
	if err != nil {
		s.t.Fatalf("Peers: %v", err)
	}
	return all
}

// same compares what was recorded, or answered. "" is what is not there.
func same(a, b pool.View) bool {
	plain := func(m map[uint64]string) map[uint64]string {
		m = maps.Clone(m)
		maps.DeleteFunc(m, func(_ uint64, text string) bool { return text == "" })
		return m
	}
	equal := func(a, b map[uint64]string) bool { return maps.Equal(plain(a), plain(b)) }
	return a.Meta == b.Meta && equal(a.Records, b.Records) && equal(a.Present, b.Present)
}

func testEmpty(t *testing.T, p Place) {
	s := p.open(t)
	if v := s.load(); v.Meta != "" || len(v.Records) > 0 || len(v.Present) > 0 {
		t.Errorf("%+v", v)
	}
	if all := s.peers(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	one := map[uint64]string{7: "b"}
	for _, c := range []pool.Change{{IfMeta: "a"}, {IfMeta: "a", SetMeta: "b"}, {If: map[uint64]string{7: "a"}, Set: one}} {
		if a := s.commit(c); a.Done || a.View.Meta != "" || a.View.Records[7] != "" {
			t.Errorf("%+v: %+v", c, a)
		}
	}
	if a := s.commit(pool.Change{}); !a.Done || a.Session == "" {
		t.Errorf("a change of nothing: %+v", a)
	}
	for _, f := range s.Facts() {
		if f.Name == "" || f.Help == "" || f.Value == nil {
			t.Errorf("%+v", f)
		}
	}
}

func testNames(t *testing.T, p Place) {
	had := map[string]bool{}
	for range 3 {
		s := p.open(t)
		first := s.conn
		s.connect()
		const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ."
		if s.conn != first || had[first] || first == "" || len(first) > 80 || strings.Trim(first, allowed) != "" {
			t.Errorf("connections %q and %q, after %v", first, s.conn, had)
		}
		had[first] = true
	}
}

func testMost(t *testing.T, p Place) {
	s := p.open(t)
	create := pool.Change{Fresh: true, SetMeta: "meta", If: map[uint64]string{}, Set: map[uint64]string{}}
	change := pool.Change{IfMeta: "meta", SetMeta: "another", If: map[uint64]string{}, Set: map[uint64]string{}}
	for i := range uint64(cas.MaxRecords) {
		w := 9950 + i // some names have more digits than others
		long := strings.Repeat("x", 500) + strconv.FormatUint(i, 10)
		create.If[w], create.Set[w] = "", long
		change.If[w], change.Set[w] = long, "short"
	}
	for _, c := range []pool.Change{create, change} {
		if a := s.commit(c); !a.Done {
			t.Fatalf("%+v", a)
		}
		if v := s.load(); v.Meta != c.SetMeta || !maps.Equal(v.Records, c.Set) {
			t.Fatalf("%+v", v)
		}
	}
	change.IfMeta = "another"
	if a := s.commit(change); a.Done || !maps.Equal(a.View.Records, change.Set) || a.View.Meta != "another" {
		t.Errorf("%+v", a)
	}
}

func testTexts(t *testing.T, p Place) {
	s := p.open(t)
	for i, text := range []string{" ", "%20", "a b", "1 0 0 - -", strings.Repeat("é", 150), "\"'\\`{}", "1\n2"} {
		w := uint64(i)
		if a := s.commit(pool.Change{If: map[uint64]string{w: ""}, Set: map[uint64]string{w: text}}); !a.Done {
			t.Errorf("%q: %+v", text, a)
		}
		if a := s.commit(pool.Change{If: map[uint64]string{w: text + " "}, Set: map[uint64]string{w: "x"}}); a.Done || a.View.Records[w] != text {
			t.Errorf("%q: %+v", text, a)
		}
		name := fmt.Sprint("a-b_c.", i)
		s.announce(w, text)
		s.publish(name, text)
		if v, all := s.load(), s.peers(); v.Records[w] != text || v.Present[w] != text || all[name] != text {
			t.Errorf("%q: %+v, %+v", text, v, all)
		}
	}
}

// A hand may empty a key. It can be read and written over; "" is only for a key that is not there.
func testBlank(t *testing.T, p Place) {
	s := p.open(t)
	empty := map[uint64]string{7: ""}
	if a := s.commit(pool.Change{Fresh: true, SetMeta: "m", If: empty, Set: empty}); !a.Done {
		t.Fatalf("%+v", a)
	}
	if v := s.load(); v.Records[7] != cas.Blank {
		t.Errorf("%+v", v)
	}
	if a := s.commit(pool.Change{IfMeta: "m", If: empty, Set: map[uint64]string{7: "x"}}); a.Done || a.View.Records[7] != cas.Blank {
		t.Errorf("%+v", a)
	}
	if a := s.commit(pool.Change{IfMeta: "m", If: map[uint64]string{7: cas.Blank}, Set: map[uint64]string{7: "x"}}); !a.Done {
		t.Errorf("%+v", a)
	}
}

func testConnection(t *testing.T, p Place) {
	s := p.open(t)
	ctx, cancel := within()
	defer cancel()
	for _, conn := range []string{"", "another.1", s.conn + "1"} {
		_, load := s.Load(ctx, conn)
		_, commit := s.Commit(ctx, conn, pool.Change{Fresh: true, SetMeta: "x"})
		_, peers := s.Peers(ctx, conn)
		for i, err := range []error{load, commit, s.Announce(ctx, conn, 1, "x"), s.Publish(ctx, conn, "x", "x"), peers} {
			if !errors.Is(err, cas.ErrConnection) {
				t.Errorf("connection %q, call %d: %v", conn, i, err)
			}
		}
	}
	if v := s.load(); v.Meta != "" || len(v.Present) > 0 {
		t.Errorf("%+v", v)
	}
}

func testSessions(t *testing.T, p Place) {
	a, b := p.open(t), p.open(t)
	a.announce(1, "a")
	a.announce(2, "a")
	a.publish("a", "a")
	a.publish("b", "a")
	b.announce(2, "b")
	b.publish("b", "b")
	want := pool.View{Records: map[uint64]string{}, Present: map[uint64]string{1: "a", 2: "b"}}
	for range 2 { // nobody deletes what is not his
		if v, all := b.load(), b.peers(); !same(v, want) || !maps.Equal(all, map[string]string{"a": "a", "b": "b"}) {
			t.Errorf("%+v, %+v", v, all)
		}
		a.announce(2, "")
		a.publish("b", "")
		b.announce(1, "")
		b.publish("a", "")
		b.announce(3, "") // that is not there
		b.publish("c", "")
	}
	a.Close()
	want.Present = map[uint64]string{2: "b"}
	deadline := time.Now().Add(patience)
	for !same(b.load(), want) || !maps.Equal(b.peers(), map[string]string{"b": "b"}) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %+v", b.load(), b.peers())
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.announce(2, "")
	b.publish("b", "")
	if v, all := b.load(), b.peers(); len(v.Present) > 0 || len(all) > 0 {
		t.Errorf("%+v, %+v", v, all)
	}
}

// testContention lets daemons count together: one number in meta, another one in a record.
func testContention(t *testing.T, p Place) {
	const daemons, each = 4, 15
	setup := p.open(t)
	setup.commit(pool.Change{Fresh: true, SetMeta: "0", If: map[uint64]string{5: ""}, Set: map[uint64]string{5: "0"}})
	var all sync.WaitGroup
	for range daemons {
		s := p.open(t)
		all.Go(func() {
			seen := s.load()
			for done := 0; done < each; {
				m, err := strconv.Atoi(seen.Meta)
				r, bad := strconv.Atoi(seen.Records[5])
				if err != nil || bad != nil || m != r {
					t.Errorf("read %+v", seen)
					return
				}
				next := strconv.Itoa(m + 1)
				c := pool.Change{IfMeta: seen.Meta, SetMeta: next, If: map[uint64]string{5: seen.Records[5]}, Set: map[uint64]string{5: next}}
				ctx, cancel := within()
				a, err := s.Commit(ctx, s.conn, c)
				cancel()
				switch {
				case err != nil:
					t.Errorf("Commit: %v", err)
					return
				case a.Done:
					done++
					seen = pool.View{Meta: next, Records: c.Set}
				default:
					seen = a.View
				}
			}
		})
	}
	all.Wait()
	if v := setup.load(); v.Meta != strconv.Itoa(daemons*each) || v.Records[5] != v.Meta {
		t.Errorf("%+v after %d additions", v, daemons*each)
	}
}

// testContext: a driver may refuse a call whose context has ended, or carry it out, but must not hang.
func testContext(t *testing.T, p Place) {
	s := p.open(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Commit(ctx, s.conn, pool.Change{Fresh: true, SetMeta: "x"}); err == nil {
		if v := s.load(); v.Meta != "x" {
			t.Errorf("it is said to be done: %+v", v)
		}
	}
	s.connect()
	s.load()
}

func testClosed(t *testing.T, p Place) {
	s := p.open(t)
	s.announce(1, "a")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := within()
	defer cancel()
	if _, err := s.Load(ctx, s.conn); err == nil {
		t.Error("a closed driver reads")
	}
	if _, err := s.Commit(ctx, s.conn, pool.Change{Fresh: true, SetMeta: "x"}); err == nil {
		t.Error("a closed driver writes")
	}
	s.Facts()
	if v := p.open(t).load(); v.Meta != "" {
		t.Errorf("%+v", v)
	}
}

// testSame makes the same calls in memory and to the driver.
func testSame(t *testing.T, p Place, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0x636173))
	server := memcas.NewServer(func() int64 { return 0 }, 1000)
	memory := Place(func(testing.TB) cas.Driver { return &memcas.Driver{Server: server} })
	var theirs, ours [3]*side
	sessions := map[string]bool{}
	for i := range ours {
		theirs[i], ours[i] = p.open(t), memory.open(t)
	}
	for n := range calls {
		i := rnd.IntN(len(ours))
		d, m := theirs[i], ours[i]
		switch k := rnd.IntN(12); k {
		case 0, 1:
			w, text := worker(rnd), text(rnd)
			d.announce(w, text)
			m.announce(w, text)
		case 2:
			name, text := "peer."+strconv.Itoa(rnd.IntN(3)), text(rnd)
			d.publish(name, text)
			m.publish(name, text)
		case 3:
			d.load() // it may learn something by that
		default:
			c := change(rnd, ours[rnd.IntN(len(ours))].load())
			got, want := d.commit(c), m.commit(c)
			if got.Done != want.Done || !got.Done && !same(got.View, want.View) || got.Session == "" {
				t.Fatalf("call %d, %+v: %+v instead of %+v", n, c, got, want)
			}
			sessions[got.Session] = true
		}
		if v, w := theirs[(i+1)%len(theirs)].load(), m.load(); !same(v, w) {
			t.Fatalf("after call %d: %+v instead of %+v", n, v, w)
		}
		if v, w := theirs[(i+1)%len(theirs)].peers(), m.peers(); !reflect.DeepEqual(v, w) {
			t.Fatalf("after call %d: %+v instead of %+v", n, v, w)
		}
	}
	if len(sessions) != len(theirs) {
		t.Errorf("%d sessions of %d daemons", len(sessions), len(theirs))
	}
}

func worker(rnd *rand.Rand) uint64 { return []uint64{0, 1, 7, 999, 9999, 12345}[rnd.IntN(6)] }

// text is seldom the same again, and at times empty.
func text(rnd *rand.Rand) string {
	return []string{"", "a", "1 0 0 - -", strconv.FormatUint(rnd.Uint64(), 36)}[rnd.IntN(4)]
}

// change is one that fits what is recorded, more often than not.
func change(rnd *rand.Rand, v pool.View) pool.Change {
	c := pool.Change{If: map[uint64]string{}, Set: map[uint64]string{}}
	switch rnd.IntN(5) {
	case 0:
		c.Fresh = true
	case 1, 2:
		c.IfMeta = v.Meta
	case 3:
		c.IfMeta = text(rnd)
	}
	if rnd.IntN(3) == 0 {
		c.SetMeta = text(rnd)
	}
	for range rnd.IntN(4) {
		w := worker(rnd)
		c.If[w] = v.Records[w]
		if rnd.IntN(6) == 0 {
			c.If[w] = text(rnd)
		}
		if next := text(rnd); next != "" && rnd.IntN(5) > 0 {
			c.Set[w] = next
		}
	}
	return c
}
