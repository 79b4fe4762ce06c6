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
	seen  []string                     // names
	about func(d *digest, name string) // nil, or what there is to say of a name at its first appearance
}

func (d *digest) add(v uint64) {
	hi, lo := bits.Mul64(d.h^v^0x9e3779b97f4a7c15, 0xd6e8feb86659fd93)
	d.h = hi ^ lo ^ bits.RotateLeft64(v, 29)
}

// flags is a number with a bit for each.
func flags(all ...bool) (bits int64) {
	for i, f := range all {
		if f {
			bits |= 1 << i
		}
	}
	return bits
}

// Number implements cas.Visitor.
func (d *digest) Number(n int64) { d.add(uint64(n)) }

func (d *digest) numbers(all ...int64) {
	for _, n := range all {
		d.Number(n)
	}
}

// Time implements cas.Visitor.
func (d *digest) Time(ms int64) { d.add(uint64(max(ms-d.now, -old))) }

func (d *digest) times(all ...int64) {
	for _, ms := range all {
		d.Time(ms)
	}
}

// Boot implements cas.Visitor.
func (d *digest) Boot(t time.Duration) { d.add(uint64(max(t.Milliseconds()-d.boot, -old)) ^ 1<<62) }

// Name implements cas.Visitor.
func (d *digest) Name(name string) {
	if name == "" {
		d.add(1 << 61)
		return
	}
	for i, n := range d.seen {
		if n == name {
			d.add(uint64(i) | 1<<60)
			return
		}
	}
	d.add(uint64(len(d.seen)) | 1<<60)
	d.seen = append(d.seen, name)
	if d.about != nil {
		d.about(d, name)
	}
}

func (d *digest) names(all ...string) {
	for _, name := range all {
		d.Name(name)
	}
}

// Text implements cas.Visitor. Of the words of a record, those of 13 digits are times, and those with a dot
// are request ids.
func (d *digest) Text(text string) {
	from, hash, number, digits, dot := 0, uint64(0), int64(0), true, false
	for i := 0; i <= len(text) && text != ""; i++ {
		if i < len(text) && text[i] != ' ' {
			c := text[i]
			hash, number = hash*131+uint64(c), number*10+int64(c-'0')
			digits, dot = digits && c >= '0' && c <= '9', dot || c == '.'
			continue
		}
		switch {
		case dot:
			d.Name(text[from:i])
		case digits && i-from == 13:
			d.Time(number)
		default:
			d.add(hash | 1<<58)
		}
		from, hash, number, digits, dot = i+1, 0, 0, true, false
	}
	d.add(1 << 59)
}
