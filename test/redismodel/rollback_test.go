package redismodel_test

import (
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redismodel"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/scripted"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// What random histories hardly ever come to: a release or an extension that finds the record older
// than its sender knows it, be it that old keys were put back, or that the sender released the
// worker id and is late.
func TestConformanceOfOldRecords(t *testing.T) {
	t.Parallel()
	server, lost, kept := redistest.Start(t), 0, 0
	for n := range 3 * 2 * 9 {
		h := &history{T: t, now: 1893456000000, reached: map[string]int{}}
		h.model.Run, h.model.Replid = "aa", "bb"
		h.real = scripted.New(server.Client(), fmt.Sprint("old", n))
		back, before, last := n%3, n/3%2 == 1, int64(n/6)
		terms := script.Terms{Fingerprint: "f", Lease: 60000, MaxLease: 60000, MaxSkew: 2000, Epsilon: 5000, Min: 8, Max: 8}
		h.call(script.Init{Terms: terms, Now: h.now, RequestID: h.requestID(), How: script.InitNew})
		h.now++
		var snapshots [3]redismodel.Keys
		var m script.Memory
		acquire := func(owner string) workerid.Grant {
			c := m.Acquiring(script.Acquire{Terms: terms, Now: h.now, RequestID: h.requestID(), Owner: owner, From: 8, To: 8})
			v, _ := h.call(c)
			r := v.(script.Acquired)
			m.Acquired(c, r)
			return workerid.Grant{Worker: 8, Owner: owner, Lo: r.Lo, Hi: r.Hi}
		}
		release := func(g workerid.Grant, last int64) {
			h.call(m.Releasing(script.Release{Terms: terms, Now: h.now, RequestID: h.requestID(), Grant: g, Last: last}))
		}
		if before { // somebody had the worker id before
			g := acquire("first")
			h.now += 1000
			release(g, h.now)
			h.now++
		}
		snapshots[1] = h.model.Keys.Clone()
		g := acquire("d")
		snapshots[2] = h.model.Keys.Clone()
		h.now += 1000
		e := m.Extending(script.Extend{Terms: terms, Now: h.now, RequestID: h.requestID()}, []workerid.Grant{g})
		v, _ := h.call(e)
		m.Extended(e, v.(script.Extended))
		m.Heard(e, v.(script.Extended))
		g.Hi = v.(script.Extended).Results[0].Grant.Hi
		e = m.Extending(script.Extend{Terms: terms, Now: h.now, RequestID: h.requestID()}, []workerid.Grant{g})
		was := h.model.Keys.Meta.Incarnation
		if back > 0 {
			h.model.Keys = snapshots[back].Clone()
			h.write()
		}
		if last > 0 { // 0: it goes on
			release(g, []int64{g.Lo - 2, g.Lo - 1, g.Lo, g.Lo + 500, g.Hi - 1, g.Hi, g.Hi + 1, 0}[last-1])
			h.compareKeys()
		}
		h.call(e)
		if h.compareKeys(); h.Failed() {
			t.Fatalf("back %d, before %v, last %d", back, before, last)
		}
		if h.model.Keys.Meta.Incarnation != was {
			lost++
		} else {
			kept++
		}
	}
	if t.Logf("%d were noticed, %d were none", lost, kept); lost < 20 || kept < 10 {
		t.Errorf("%d were noticed, %d were none", lost, kept)
	}
}
