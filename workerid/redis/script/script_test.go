package script

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

func TestMembersSortAsNumbers(t *testing.T) {
	var members []string
	for _, n := range []uint64{0, 1, 9, 10, 99, 100, 1023, 65535, 1<<64 - 1} {
		m := Member(n)
		if back, err := ParseMember(m); back != n || err != nil {
			t.Errorf("%d is %s, which is %d, %v", n, m, back, err)
		}
		members = append(members, m)
	}
	if !sort.StringsAreSorted(members) || members[1] != "A1" || members[3] != "B10" || members[5] != "C100" {
		t.Errorf("%q", members)
	}
	for _, bad := range []string{"", "A", "1", "B1", "A10", "A-1", "B01", "A 1", "@", "a1", "A1 "} {
		if n, err := ParseMember(bad); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
}

func FuzzParseMember(f *testing.F) {
	for _, s := range []string{"A1", "B10", "C100", "B01", "", "T18446744073709551615", "T99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseMember(s); err == nil && Member(n) != s {
			t.Errorf("%q is %d, which is %q", s, n, Member(n))
		}
	})
}

func FuzzAnswers(f *testing.F) {
	f.Add("1893456000000", "run:rep:t", "A1", "SKEW 5", int64(3))
	f.Add("", "KATSU_NOID 59000", "KATSU_", "KATSU_FOREIGN", int64(-1))
	f.Fuzz(func(t *testing.T, a, b, c, d string, n int64) {
		for _, reply := range []any{nil, a, n, []any{}, []any{a, b}, []any{a, b, n, n, c, a, n, []any{d, a, b}},
			[]any{a, b, []any{c, d}, []any{a}, []any{c, a}, n}} {
			_, err1 := ReadAcquired(reply)
			_, err2 := ReadExtended(Extend{Lanes: make([]Lane, 2)}, reply)
			_, err3 := ReadDump(reply)
			if len, ok := reply.([]any); (!ok || cap(len) == 0) && (err1 == nil || err2 == nil || err3 == nil) {
				t.Errorf("%v was read: %v, %v, %v", reply, err1, err2, err3)
			}
		}
		if r, ok := ParseRefusal(b); ok && r.Error() == "" {
			t.Errorf("%q says nothing", b)
		}
	})
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		text, want string
		is         error
	}{
		{"KATSU_LOST", "the lease is lost", workerid.ErrLost},
		{"KATSU_NOID 0", "no worker id is free", workerid.ErrNoID},
		{"KATSU_NOID 43500", "no worker id is free: none is given out for another 43.5s, as grants may have been forgotten",
			workerid.ErrNoneYet},
		{"KATSU_SKEW -3000", "this host's clock and the store's differ too much: Redis's is 3s behind", workerid.ErrSkew},
		{"KATSU_FOREIGN x;lease=1ms", "the worker ids belong to daemons with other settings: theirs are x;lease=1ms",
			workerid.ErrForeignPool},
		{"KATSU_NOINIT absent", "the pool of worker ids is not initialised: `katsubushi lease init` does it (-how new, if " +
			"there never was one)", ErrNotInitialised},
		{"KATSU_NOINIT yaraus", "the pool of worker ids is not initialised: it is one of yaraus's, which `katsubushi " +
			"lease init -how new` adopts", ErrNotInitialised},
		{"KATSU_NOTMASTER slave", "the server is not a master: its role is slave", ErrNotMaster},
		{"KATSU_CLOCK 3600000", "the server's clock went back by 1h0m0s: set it right, or accept it with `katsubushi " +
			"lease reset-clock`", ErrClockBack},
		{"KATSU_JUMP 3600000 49900",
			"the server's clock went forward by 1h0m0s, and worker ids were held then: accepted if it lasts another 49.9s",
			ErrClockForward},
		{"KATSU_STEADY", "the server's clock did not go back: there is nothing to reset", ErrClockSteady},
		{"KATSU_REPLICAS 3 2", "more replicas are connected than must have a grant: 3 are, and 2 must; `katsubushi lease " +
			"replicas 3` changes that", ErrReplicas},
		{"KATSU_HELD 7", "worker ids are held: 7 is", ErrHeld},
		{"KATSU_NEW thing", "redis: refused: NEW thing", nil},
	} {
		r, ok := ParseRefusal(c.text)
		if !ok || r.Error() != c.want || c.is != nil && !errors.Is(r, c.is) {
			t.Errorf("%s: %v", c.text, r)
		}
	}
	if _, ok := ParseRefusal("OOM command not allowed"); ok {
		t.Error("not every error is a refusal")
	}
	for text, want := range map[string]time.Duration{
		"KATSU_NOID 43500": 43500 * time.Millisecond, "KATSU_NOID 0": 0, "KATSU_JUMP 3600000 49900": 49900 * time.Millisecond,
		"KATSU_SKEW 3000": 0, "KATSU_CLOCK 3000": 0,
	} {
		if r, _ := ParseRefusal(text); r.RetryAfter() != want {
			t.Errorf("%s: again after %v", text, r.RetryAfter())
		}
	}
	if d := (Refusal{Code: "NOID", Fields: []string{"x"}}).duration(0); d != 0*time.Second {
		t.Error(d)
	}
}

// A memory keeps every request id that a record may have, and no more.
func TestMemory(t *testing.T) {
	const remembered = 64 // what workerid.Requests keeps
	var m Memory
	a1 := m.Acquiring(Acquire{Owner: "a", RequestID: "1"})
	a2 := m.Acquiring(Acquire{Owner: "a", RequestID: "2"})
	if !a1.New || a2.New || a1.Known != nil || !slices.Equal(a2.Known, []string{"1"}) {
		t.Errorf("%+v, %+v", a1, a2)
	}
	m.Acquired(a2, Acquired{Worker: 7, Server: Server{Incarnation: "h"}})
	if a3 := m.Acquiring(Acquire{Owner: "a", RequestID: "3"}); a3.New || a3.Known != nil {
		t.Errorf("after an answer that was heard: %+v", a3)
	}

	held := []workerid.Grant{{Worker: 7, Owner: "a"}}
	known := func(requestID string) []string { return m.Extending(Extend{RequestID: requestID}, held).Lanes[0].Known }
	if k := known("4"); !slices.Equal(k, []string{"2"}) {
		t.Errorf("%q", k)
	}
	e := m.Extending(Extend{RequestID: "5"}, held)
	if k := e.Lanes[0].Known; !slices.Equal(k, []string{"2", "4"}) || e.Lanes[0].Incarnation != "h" {
		t.Errorf("%+v", e)
	}
	m.NotExtended(e)
	other := copied.Of(&m)
	e = m.Extending(Extend{RequestID: "6"}, held)
	if k := e.Lanes[0].Known; !slices.Equal(k, []string{"2", "4"}) {
		t.Errorf("a request that had no effect is remembered: %q", k)
	}
	answer := Extended{Server: Server{Incarnation: "h2"}, Results: make([]workerid.Result, 1)}
	m.Extended(e, answer)
	e = m.Extending(Extend{RequestID: "6b"}, held)
	if k := e.Lanes[0].Known; !slices.Equal(k, []string{"2", "4", "6"}) || e.Lanes[0].Incarnation != "h2" {
		t.Errorf("after an answer that nobody heard: %+v", e)
	}
	m.Extended(e, answer)
	m.Heard(e, Extended{Results: []workerid.Result{{Err: workerid.ErrUnconfirmed}}})
	e = m.Extending(Extend{RequestID: "6c"}, held)
	if k := e.Lanes[0].Known; !slices.Equal(k, []string{"2", "4", "6", "6b"}) {
		t.Errorf("after one that does not count: %q", k)
	}
	m.Extended(e, answer)
	m.Heard(e, answer)
	for i := range 2 * remembered {
		known(fmt.Sprint("x", i))
	}
	if k := known("7"); len(k) != remembered || k[0] != "6c" || k[len(k)-1] != fmt.Sprint("x", 2*remembered-1) {
		t.Errorf("%q", k)
	}
	if k := other.Extending(Extend{RequestID: "8"}, held).Lanes[0].Known; !slices.Equal(k, []string{"2", "4"}) {
		t.Errorf("a copy has %q", k)
	}
	if r := m.Releasing(Release{Grant: held[0]}); len(r.Known) != remembered ||
		m.Releasing(Release{Grant: held[0]}).Known != nil {
		t.Errorf("%q", r.Known)
	}
}
