package castest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
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
		run  func(*attempt)
	}{
		{"nothing is there at first", testEmpty},
		{"names of connections", testNames},
		{"as many records as allowed", testMost},
		{"texts as they are", testTexts},
		{"a key that is there, without a text", testBlank},
		{"a call for another connection is refused", testConnection},
		{"presences end with their sessions", testSessions},
		{"nobody overwrites what he has not seen", testContention},
		{"what is read was true at one moment", testMoment},
		{"what was known may have changed", testStale},
		{"an ended context", testContext},
		{"after closing", testClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			try(t, fresh, test.run)
		})
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("the same as in memory, seed ", seed), func(t *testing.T) {
			t.Parallel()
			try(t, fresh, func(t *attempt) { testSame(t, seed) })
		})
	}
}

const (
	seeds = 2
	calls = 100 // of a seed
)

// patience is for one call on a busy machine.
const patience = time.Minute

// A side is a daemon's driver and its connection.
type side struct {
	cas.Driver
	t      testing.TB
	conn   string
	begun  string // the session that there was with the connection
	closed bool
}

// Close implements cas.Driver.
func (s *side) Close() error {
	s.closed = true
	return s.Driver.Close()
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
	s.begun = s.session()
}

func (s *side) session() string {
	s.t.Helper()
	ctx, cancel := within()
	defer cancel()
	a, err := s.Commit(ctx, s.conn, pool.Change{})
	if err != nil {
		return ""
	}
	return a.Session
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

func testEmpty(t *attempt) {
	s := t.open()
	if v := s.load(); v.Meta != "" || len(v.Records) > 0 || len(v.Present) > 0 {
		t.Errorf("%+v", v)
	}
	if all := s.peers(); len(all) > 0 {
		t.Errorf("%+v", all)
	}
	one := map[uint64]string{7: "b"}
	for _, c := range []pool.Change{{IfMeta: "a"}, {IfMeta: "a", SetMeta: "b"},
		{If: map[uint64]string{7: "a"}, Set: one}} {
		if a := s.commit(c); a.Done || a.View.Meta != "" || a.View.Records[7] != "" {
			t.Errorf("%+v: %+v", c, a)
		}
	}
	if a := s.commit(pool.Change{}); !a.Done || a.Session == "" {
		t.Errorf("a change of nothing: %+v", a)
	}
	s.Figures(func(f figure.Figure) {
		if f.Stat == "" && f.Metric == "" || f.Metric != "" && f.Help == "" || f.Value == nil {
			t.Errorf("%+v", f)
		}
	})
}

func testNames(t *attempt) {
	had := map[string]bool{}
	for range 3 {
		s := t.open()
		first := s.conn
		s.connect()
		const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ."
		if s.conn != first || had[first] || first == "" || len(first) > 80 || strings.Trim(first, allowed) != "" {
			t.Errorf("connections %q and %q, after %v", first, s.conn, had)
		}
		had[first] = true
	}
}

func testMost(t *attempt) {
	s := t.open()
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

func testTexts(t *attempt) {
	s := t.open()
	for i, text := range []string{" ", "%20", "a b", "1 0 0 - -", strings.Repeat("é", 150), "\"'\\`{}", "1\n2"} {
		w := uint64(i)
		if a := s.commit(pool.Change{If: map[uint64]string{w: ""}, Set: map[uint64]string{w: text}}); !a.Done {
			t.Errorf("%q: %+v", text, a)
		}
		if a := s.commit(pool.Change{If: map[uint64]string{w: text + " "}, Set: map[uint64]string{w: "x"}}); a.Done ||
			a.View.Records[w] != text {
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
func testBlank(t *attempt) {
	s := t.open()
	empty := map[uint64]string{7: ""}
	if a := s.commit(pool.Change{Fresh: true, SetMeta: "m", If: empty, Set: empty}); !a.Done {
		t.Fatalf("%+v", a)
	}
	if v := s.load(); v.Records[7] != cas.Blank {
		t.Errorf("%+v", v)
	}
	if a := s.commit(pool.Change{IfMeta: "m", If: empty, Set: map[uint64]string{7: "x"}}); a.Done ||
		a.View.Records[7] != cas.Blank {
		t.Errorf("%+v", a)
	}
	if a := s.commit(pool.Change{IfMeta: "m", If: map[uint64]string{7: cas.Blank},
		Set: map[uint64]string{7: "x"}}); !a.Done {
		t.Errorf("%+v", a)
	}
}

func testConnection(t *attempt) {
	s := t.open()
	ctx, cancel := within()
	defer cancel()
	for _, conn := range []string{"", "another.1", s.conn + "1"} {
		_, load := s.Load(ctx, conn)
		_, commit := s.Commit(ctx, conn, pool.Change{Fresh: true, SetMeta: "x"})
		_, nothing := s.Commit(ctx, conn, pool.Change{})
		_, peers := s.Peers(ctx, conn)
		announce, publish := s.Announce(ctx, conn, 1, "x"), s.Publish(ctx, conn, "x", "x")
		for i, err := range []error{load, commit, nothing, announce, publish, peers} {
			if !errors.Is(err, cas.ErrConnection) {
				t.Errorf("connection %q, call %d: %v", conn, i, err)
			}
		}
	}
	if v := s.load(); v.Meta != "" || len(v.Present) > 0 {
		t.Errorf("%+v", v)
	}
}

func testSessions(t *attempt) {
	a, b := t.open(), t.open()
	a.announce(1, "a")
	a.announce(2, "a")
	a.publish("a", "a")
	a.publish("b", "a")
	b.announce(2, "b")
	b.publish("b", "b")
	a.announce(4, "the same")
	b.announce(4, "the same")
	want := pool.View{Records: map[uint64]string{}, Present: map[uint64]string{1: "a", 2: "b", 4: "the same"}}
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
	want.Present = map[uint64]string{2: "b", 4: "the same"}
	deadline := time.Now().Add(5 * patience) // longer than the session of a driver whose last words were lost
	for !same(b.load(), want) || !maps.Equal(b.peers(), map[string]string{"b": "b"}) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %+v", b.load(), b.peers())
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.announce(2, "")
	b.announce(4, "")
	b.publish("b", "")
	if v, all := b.load(), b.peers(); len(v.Present) > 0 || len(all) > 0 {
		t.Errorf("%+v, %+v", v, all)
	}
}

// testContention lets daemons count together: one number in meta, another one in a record.
func testContention(t *attempt) {
	const daemons, each = 4, 15
	setup := t.open()
	setup.commit(pool.Change{Fresh: true, SetMeta: "0", If: map[uint64]string{5: ""}, Set: map[uint64]string{5: "0"}})
	var all sync.WaitGroup
	for range daemons {
		s := t.open()
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
				c := pool.Change{IfMeta: seen.Meta, SetMeta: next, If: map[uint64]string{5: seen.Records[5]},
					Set: map[uint64]string{5: next}}
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

// testMoment loads while records are made, each together with a meta that tells how many there are.
func testMoment(t *attempt) {
	const records = 100
	writer, reader := t.open(), t.open()
	var made sync.WaitGroup
	made.Go(func() {
		for w := range uint64(records) {
			c := pool.Change{SetMeta: strconv.FormatUint(w+1, 10), If: map[uint64]string{w: ""},
				Set: map[uint64]string{w: "made"}}
			ctx, cancel := within()
			a, err := writer.Commit(ctx, writer.conn, c)
			cancel()
			if err != nil || !a.Done {
				t.Errorf("%+v, %v", a, err)
				return
			}
		}
	})
	defer made.Wait()
	for told := 0; told < records && !t.Failed(); {
		v := reader.load()
		if told, _ = strconv.Atoi(v.Meta); len(v.Records) != told {
			t.Fatalf("meta tells of %d records, and there are %d", told, len(v.Records))
		}
	}
}

// testStale: a driver that has read something, and was not told that it changed, compares what is there.
func testStale(t *attempt) {
	a, b := t.open(), t.open()
	texts := func(w uint64, text string) map[uint64]string { return map[uint64]string{w: text} }
	b.commit(pool.Change{If: texts(0, ""), Set: texts(0, "steady")})
	for i, c := range []struct {
		meta   string            // "" = there is none
		record string            // of worker id 1 to 9, one for each case; "" = there is none
		theirs pool.Change       // written meanwhile
		sets   map[uint64]string // beside 0
	}{
		{"", "", pool.Change{SetMeta: "n"}, nil},
		{"m", "", pool.Change{SetMeta: "n"}, nil},
		{"m", "x", pool.Change{If: texts(3, "x"), Set: texts(3, "y")}, nil},
		{"m", "x", pool.Change{If: texts(4, "x"), Set: texts(4, "y")}, texts(4, "z")},
		{"m", "", pool.Change{If: texts(5, ""), Set: texts(5, "y")}, nil},
		{"m", "", pool.Change{If: texts(6, ""), Set: texts(6, "y")}, texts(6, "z")},
	} {
		w := uint64(i + 1)
		b.commit(pool.Change{SetMeta: c.meta})
		if c.record != "" {
			b.commit(pool.Change{If: texts(w, ""), Set: texts(w, c.record)})
		}
		ours := pool.Change{Fresh: c.meta == "", IfMeta: c.meta, If: map[uint64]string{0: "steady", w: c.record}}
		if answer := a.commit(ours); !answer.Done { // which sets nothing
			t.Fatalf("case %d: %+v", i, answer)
		}
		if answer := b.commit(c.theirs); !answer.Done {
			t.Fatalf("case %d: %+v", i, answer)
		}
		ours.Set = map[uint64]string{0: "overwritten"}
		maps.Copy(ours.Set, c.sets)
		want := b.load()
		answer := a.commit(ours)
		told := answer.View.Meta == want.Meta && answer.View.Records[w] == want.Records[w]
		if answer.Done || !told || !same(b.load(), want) {
			t.Errorf("case %d: %+v, and %+v is recorded", i, answer, b.load())
		}
	}
}

// testContext: a driver may refuse a call whose context has ended, or carry it out, but must not hang.
func testContext(t *attempt) {
	s := t.open()
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

func testClosed(t *attempt) {
	s := t.open()
	s.announce(1, "a")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := within()
	defer cancel()
	if _, err := s.Load(ctx, s.conn); !errors.Is(err, cas.ErrConnection) {
		t.Errorf("a closed driver reads: %v", err)
	}
	if _, err := s.Commit(ctx, s.conn, pool.Change{Fresh: true, SetMeta: "x"}); !errors.Is(err, cas.ErrConnection) {
		t.Errorf("a closed driver writes: %v", err)
	}
	s.Figures(func(figure.Figure) {})
	if v := t.open().load(); v.Meta != "" {
		t.Errorf("%+v", v)
	}
}
