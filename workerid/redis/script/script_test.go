package script

import (
	"errors"
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/copied"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// kinds are the errors that a refusal may be.
var kinds = []error{workerid.ErrLost, workerid.ErrNoID, workerid.ErrNoneYet, workerid.ErrSkew, workerid.ErrForeignPool,
	ErrNotInitialised, ErrNotMaster, ErrClockBack, ErrClockForward, ErrClockSteady, ErrReplicas, ErrHeld}

// TestTexts: what texts of Redis mean.
func TestTexts(t *testing.T) {
	steps.Run(t, "testdata/texts.txt", func(t *testing.T) steps.Calls {
		return steps.Calls{
			"member": Member,
			"worker": ParseMember,
			"refusal": func(text string) string {
				r, ok := ParseRefusal(text)
				if !ok {
					return "none"
				}
				said := r.Error()
				for _, kind := range kinds {
					if errors.Is(r, kind) {
						said += "\nis: " + kind.Error()
					}
				}
				return fmt.Sprintf("%s\nagain in %v", said, r.RetryAfter())
			},
		}
	})
}

// TestMemory: a memory keeps every request id that a record may have, and no more. Requests are of owner a.
func TestMemory(t *testing.T) {
	steps.Run(t, "testdata/memory.txt", func(t *testing.T) steps.Calls {
		m, sent := &Memory{}, map[string]Extend{}
		held := []workerid.Grant{{Worker: 7, Owner: "a"}}
		extending := func(m *Memory, id string) string {
			sent[id] = m.Extending(Extend{RequestID: id}, held)
			l := sent[id].Lanes[0]
			return fmt.Sprintf("known %v, incarnation %q", l.Known, l.Incarnation)
		}
		var other *Memory
		return steps.Calls{
			"acquiring": func(id string) string {
				c := m.Acquiring(Acquire{Owner: "a", RequestID: id})
				return fmt.Sprintf("new %v, known %v", c.New, c.Known)
			},
			"acquired": func(id, incarnation string) {
				m.Acquired(Acquire{Owner: "a", RequestID: id}, Acquired{Worker: 7, Server: Server{Incarnation: incarnation}})
			},
			"extending":    func(id string) string { return extending(m, id) },
			"not-extended": func(id string) { m.NotExtended(sent[id]) },
			"extended": func(id, incarnation string) {
				m.Extended(sent[id], Extended{Server: Server{Incarnation: incarnation}, Results: make([]workerid.Result, 1)})
			},
			"heard": func(id string) { m.Heard(sent[id], Extended{Results: make([]workerid.Result, 1)}) },
			"heard-unconfirmed": func(id string) {
				m.Heard(sent[id], Extended{Results: []workerid.Result{{Err: workerid.ErrUnconfirmed}}})
			},
			// extending-often 128: x1 to x128
			"extending-often": func(n int) {
				for i := range n {
					extending(m, fmt.Sprint("x", i+1))
				}
			},
			"releasing":      func() string { return fmt.Sprint(m.Releasing(Release{Grant: held[0]}).Known) },
			"copy":           func() { other = copied.Of(m) },
			"copy-extending": func(id string) string { return extending(other, id) },
		}
	})
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
