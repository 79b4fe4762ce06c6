package castest

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// testSame makes the same calls in memory and to the driver.
func testSame(t *attempt, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 0x636173))
	server := memcas.NewServer(func() int64 { return 0 }, 1000)
	memory := Place(func(testing.TB) cas.Driver { return &memcas.Driver{Server: server} })
	var theirs, ours [3]*side
	sessions := map[string]bool{}
	for i := range ours {
		theirs[i], ours[i] = t.open(), memory.open(t)
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
