package protocol

// quads is the decimal text of 0..9999, four digits each: an id of 19 digits is five look-ups.
var quads = func() (q [10000][4]byte) {
	for i := range q {
		q[i] = [4]byte{byte('0' + i/1000), byte('0' + i/100%10), byte('0' + i/10%10), byte('0' + i%10)}
	}
	return q
}()

// A decimal is a number as text that can be moved on by a stride in place, which within a run of ids is cheaper than to convert each.
type decimal struct {
	digits [20]byte // right-aligned
	start  int
}

func (d *decimal) set(v uint64) {
	i := len(d.digits)
	for v >= 10000 {
		q := v / 10000
		i -= 4
		*(*[4]byte)(d.digits[i:]) = quads[v-q*10000]
		v = q
	}
	i -= 4
	*(*[4]byte)(d.digits[i:]) = quads[v]
	for i < len(d.digits)-1 && d.digits[i] == '0' {
		i++
	}
	d.start = i
}

// add moves the number on. A sum past 2^64 is the caller's mistake; the text is then some 20 digits.
func (d *decimal) add(stride uint64) {
	for i := len(d.digits) - 1; stride > 0 && i >= 0; i-- {
		if i < d.start {
			d.start, d.digits[i] = i, '0'
		}
		q := stride / 10
		digit := d.digits[i] + byte(stride-q*10)
		if digit > '9' {
			digit -= 10
			q++
		}
		d.digits[i], stride = digit, q
	}
}

func (d *decimal) text() []byte { return d.digits[d.start:] }
