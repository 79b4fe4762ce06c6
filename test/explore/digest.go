package explore

import (
	"math/bits"
	"time"
)

// old is how far back times are told apart, ms. No rule compares the present with an earlier time than a
// lease and the margin for clocks ago, so all older ones count as one. Whether two times that are both
// older are in order is not told: what is called complete is so modulo that.
const old = 25_000

// A digest makes 64 bits of a state. Times count from now, names by their first appearance.
type digest struct {
	h     uint64
	now   int64
	boot  int64
	names []string
}

func (d *digest) add(v uint64) {
	hi, lo := bits.Mul64(d.h^v^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	d.h = hi ^ lo ^ bits.RotateLeft64(v, 29)
}

// Number implements static.Visitor.
func (d *digest) Number(n int64) { d.add(uint64(n)) }

// Time implements static.Visitor.
func (d *digest) Time(ms int64) { d.add(uint64(max(ms-d.now, -old))) }

// Boot implements static.Visitor.
func (d *digest) Boot(t time.Duration) { d.add(uint64(max(t.Milliseconds()-d.boot, -old)) ^ 1<<62) }

// Name implements static.Visitor.
func (d *digest) Name(name string) {
	if name == "" {
		d.add(1 << 61)
		return
	}
	for i, n := range d.names {
		if n == name {
			d.add(uint64(i) | 1<<60)
			return
		}
	}
	d.add(uint64(len(d.names)) | 1<<60)
	d.names = append(d.names, name)
}
