package issuer

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// orders is another kind of id: numbers in a row, at most so many at once.
type orders struct {
	next   uint64
	atOnce int
	asked  []bool // whether what was asked for was bulk
	loops  []int  // that asked for a source
	refuse error
}

func (o *orders) Source(loop int) id.Source { o.loops = append(o.loops, loop); return o }
func (o *orders) Ready(int64) error         { return o.refuse }

func (o *orders) Mint(_ int64, n int, bulk bool) (id.Run, error) {
	o.asked = append(o.asked, bulk)
	if o.next >= 10 {
		return id.Run{}, errSpent
	}
	r := id.Run{First: o.next, Stride: 1, N: min(n, o.atOnce)}
	o.next += uint64(r.N)
	return r, nil
}

var errSpent = errors.New("no more orders")

func newCatalog(t *testing.T) (*testbed, *orders, *Catalog) {
	b, o := newTestbed(1, time.Second, generator.Katsubushi()), &orders{atOnce: 3}
	b.publish(t, 0, 7, start-1000, math.MaxInt64)
	return b, o, NewCatalog(func() int64 { return b.now }, map[string]Kind{"": b.Issuer, "orders": o})
}

func TestAKeyChoosesItsKind(t *testing.T) {
	_, o, c := newCatalog(t)
	h := c.Handler(5, nil)
	if !slices.Equal(o.loops, []int{5}) {
		t.Errorf("loops %v asked", o.loops)
	}
	for _, key := range []string{"", "id", "order", "orders2", "ORDERS"} {
		if s := h.Source([]byte(key)); s != h.others {
			t.Errorf("%q has %v", key, s)
		}
	}
	if h.Source([]byte("orders")) != id.Source(o) {
		t.Error("orders has another kind")
	}
	if _, ok := h.others.(*source); !ok {
		t.Errorf("other keys have a %T", h.others)
	}
}

func TestABatchIsAllOrNothing(t *testing.T) {
	b, o, c := newCatalog(t)
	runs, err := c.Batch([]byte("orders"), 5)
	if want := []id.Run{{First: 0, Stride: 1, N: 3}, {First: 3, Stride: 1, N: 2}}; err != nil || !slices.Equal(runs, want) {
		t.Fatalf("%v, %v", runs, err)
	}
	if _, err := c.Batch([]byte("orders"), 1); err != nil || !slices.Equal(o.asked, []bool{true, true, false}) {
		t.Errorf("%v; bulk %v", err, o.asked)
	}
	if runs, err := c.Batch([]byte("orders"), 9); err != errSpent || runs != nil {
		t.Errorf("%v, %v", runs, err)
	}
	total := 0
	runs, err = c.Batch(nil, perTick+1) // more than a tick has, and bulk
	for _, r := range runs {
		total += r.N
		if w := generator.Katsubushi().Decompose(r.First).Worker; w != 7 {
			t.Errorf("worker id %d", w)
		}
	}
	if err != nil || total != perTick+1 || b.slept != 0 {
		t.Errorf("%d ids, %v, slept %v", total, err, b.slept)
	}
}

func TestACatalogIsReadyWhenAllKindsAre(t *testing.T) {
	b, o, c := newCatalog(t)
	if err := c.Ready(); err != nil {
		t.Error(err)
	}
	o.refuse = errSpent
	if err := c.Ready(); err != errSpent {
		t.Error(err)
	}
	o.refuse = nil
	b.Seal(0)
	if err := c.Ready(); err == nil {
		t.Error("ready without a lane")
	}
}
