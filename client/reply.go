package client

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
)

// A run is n ids: first, first+stride, ...
type run struct {
	first, stride uint64
	n             int
}

func (r run) at(i int) uint64 { return r.first + uint64(i)*r.stride }

func (r run) has(id uint64) bool {
	return id >= r.first && (id-r.first)%r.stride == 0 && (id-r.first)/r.stride < uint64(r.n)
}

// A mode is what a batch asks for, and how.
type mode uint8

const (
	byGet  mode = iota // numbers, with get
	byIDs              // numbers, with ids
	byText             // texts, with get
)

// A reply reads the answer to one request from bytes that arrive in pieces. It does no I/O. It
// accepts an answer only if that is exactly what was asked for.
type reply struct {
	mode   mode
	want   int
	prefix []byte // of a VALUE line, up to its length

	got   int
	runs  []run
	mixed bool   // the ids do not increase
	texts []byte // one after the other
	ends  []int  // of each text
	all   []uint64
	known map[string]bool
}

// expect prepares for the answer to a request for n ids of a name.
func (r *reply) expect(m mode, prefix []byte, n int) {
	r.mode, r.prefix, r.want = m, prefix, n
	r.got, r.mixed = 0, false
	r.runs, r.texts, r.ends = r.runs[:0], r.texts[:0], r.ends[:0]
}

// feed reads elements of the answer from in. n is how many bytes it has read; the caller brings the
// rest again, with more behind it. After done or an error the answer is over. The error is an
// ErrUnready, an ErrRefused or errUnknown, after which the connection is in step, or an ErrAnswer.
func (r *reply) feed(in []byte) (n int, done bool, err error) {
	for n < len(in) && !done && err == nil {
		var k int
		if r.mode != byIDs && bytes.HasPrefix(in[n:], r.prefix) {
			k, err = r.value(in[n:])
		} else {
			k, done, err = r.line(in[n:])
		}
		if k == 0 {
			break
		}
		n += k
	}
	return n, done, err
}

// value reads a VALUE line and its data. It returns 0 without an error if they are not complete.
func (r *reply) value(in []byte) (int, error) {
	n := len(r.prefix)
	size := 0
	for ; n < len(in) && '0' <= in[n] && in[n] <= '9' && size <= maxName; n++ {
		size = size*10 + int(in[n]-'0')
	}
	if size > maxName {
		return n, r.wrong(in, "a value that is too long")
	}
	end := n + 2 + size + 2
	switch {
	case n < len(in) && in[n] != '\r', n+1 < len(in) && in[n+1] != '\n':
		return n, r.wrong(in, "not a length")
	case len(in) < end:
		return 0, nil
	case in[end-2] != '\r' || in[end-1] != '\n':
		return n, r.wrong(in, "a value of another length")
	case r.got == r.want:
		return n, r.wrong(in, "too many ids")
	}
	data := in[n+2 : end-2]
	if r.mode == byText {
		return end, r.text(data)
	}
	v, ok := number(data)
	if !ok {
		return n, r.wrong(data, "not an id")
	}
	r.add(v)
	return end, nil
}

// add adds one id to the last run, or begins another one.
func (r *reply) add(v uint64) {
	r.got++
	if len(r.runs) == 0 {
		r.runs = append(r.runs, run{v, 1, 1})
		return
	}
	l := &r.runs[len(r.runs)-1]
	switch last := l.at(l.n - 1); {
	case v <= last:
		r.mixed = true
	case v-last == l.stride:
		l.n++
		return
	case l.n == 1:
		l.stride, l.n = v-last, 2
		return
	}
	r.runs = append(r.runs, run{v, 1, 1})
}

// text adds one text. The values of a sequence have more digits than those before.
func (r *reply) text(data []byte) error {
	if len(data) == 0 || slices.ContainsFunc(data, func(b byte) bool { return b <= ' ' || b >= 0x7f }) {
		return r.wrong(data, "not a text")
	}
	if r.got > 0 && bytes.Compare(textAt(r.texts, r.ends, r.got-1), data) >= 0 {
		r.mixed = true
	}
	r.texts = append(r.texts, data...)
	r.ends = append(r.ends, len(r.texts))
	r.got++
	return nil
}

// textAt is text i of those that stand in texts one after the other.
func textAt[T string | []byte](texts T, ends []int, i int) T {
	begin := 0
	if i > 0 {
		begin = ends[i-1]
	}
	return texts[begin:ends[i]]
}

var lineEnd = []byte("\r\n")

// line reads any other line.
func (r *reply) line(in []byte) (n int, done bool, err error) {
	i := bytes.IndexByte(in[:min(len(in), maxLine)], '\n')
	switch {
	case i < 0 && len(in) >= maxLine:
		return len(in), false, r.wrong(in, "a line that is too long")
	case i < 0:
		return 0, false, nil
	}
	n = i + 1
	text, ok := bytes.CutSuffix(in[:n], lineEnd)
	if !ok {
		return n, false, r.wrong(in[:n], "a line without CR")
	}
	if reason, ok := bytes.CutPrefix(text, []byte("SERVER_ERROR")); ok {
		return n, false, fmt.Errorf("%w:%.200s", ErrUnready, reason)
	}
	if reason, ok := bytes.CutPrefix(text, []byte("CLIENT_ERROR")); ok {
		return n, false, fmt.Errorf("%w:%.200s", ErrRefused, reason)
	}
	switch {
	case r.mode == byIDs && r.got == 0 && string(text) == "ERROR":
		return n, false, errUnknown
	case string(text) == "END" && r.got != r.want:
		return n, false, r.wrong(text, "too few ids")
	case string(text) == "END":
		err := r.unique()
		return n, err == nil, err
	case r.mode == byIDs:
		return n, false, r.ids(text)
	}
	return n, false, r.wrong(text, "not a value")
}

// ids reads "IDS first stride n".
func (r *reply) ids(text []byte) error {
	var f [3]uint64
	rest, ok := bytes.CutPrefix(text, []byte("IDS "))
	for i := range f {
		var word []byte
		word, rest, _ = bytes.Cut(rest, []byte(" "))
		v, is := number(word)
		f[i], ok = v, ok && is
	}
	if !ok || len(rest) > 0 {
		return r.wrong(text, "not a range of ids")
	}
	if f[2] > uint64(r.want-r.got) {
		return r.wrong(text, "too many ids")
	}
	next := run{f[0], f[1], int(f[2])}
	if over, length := bits.Mul64(f[1], f[2]-1); over > 0 || length > ^f[0] {
		return r.wrong(text, "ids beyond 64 bits")
	}
	if l := len(r.runs); l > 0 && r.runs[l-1].at(r.runs[l-1].n-1) >= next.first {
		r.mixed = true
	}
	r.runs = append(r.runs, next)
	r.got += next.n
	return nil
}

// unique is an error if an id comes twice. Ids that increase cannot.
func (r *reply) unique() error {
	if !r.mixed {
		return nil
	}
	if r.mode == byText {
		return r.uniqueTexts()
	}
	r.all = r.all[:0]
	for _, x := range r.runs {
		for i := range x.n {
			r.all = append(r.all, x.at(i))
		}
	}
	slices.Sort(r.all)
	for i := 1; i < len(r.all); i++ {
		if r.all[i] == r.all[i-1] {
			return r.wrong(fmt.Appendf(nil, "%d", r.all[i]), "an id twice")
		}
	}
	return nil
}

func (r *reply) uniqueTexts() error {
	if r.known == nil {
		r.known = make(map[string]bool, r.got)
	}
	defer clear(r.known)
	texts := string(r.texts)
	for i := range r.ends {
		text := textAt(texts, r.ends, i)
		if r.known[text] {
			return r.wrong([]byte(text), "a text twice")
		}
		r.known[text] = true
	}
	return nil
}

// A mark is the last number, and the last text, that a server has answered for a name.
type mark struct {
	id   uint64
	text string
}

// repeats is an error if an answer that is complete has the last id of the answer before it. The server
// does not make ids then, but keeps some, as memcached does. Else the answer's last id is the mark.
func (r *reply) repeats(m *mark) error {
	const again = "an id of the answer before: a server that keeps values, such as memcached?"
	if r.mode != byText {
		if slices.ContainsFunc(r.runs, func(x run) bool { return x.has(m.id) }) {
			return r.wrong(strconv.AppendUint(nil, m.id, 10), again)
		}
		last := r.runs[len(r.runs)-1]
		m.id = last.at(last.n - 1)
		return nil
	}
	for i := range r.ends {
		if string(textAt(r.texts, r.ends, i)) == m.text {
			return r.wrong([]byte(m.text), again)
		}
	}
	m.text = string(textAt(r.texts, r.ends, len(r.ends)-1))
	return nil
}

func (r *reply) wrong(near []byte, what string) error {
	return fmt.Errorf("%w: %s: %.60q", ErrAnswer, what, near)
}

// number reads a decimal number from 1 to 2^64-1 without leading zeros.
func number(text []byte) (v uint64, ok bool) {
	if len(text) == 0 || len(text) > 20 || text[0] == '0' {
		return 0, false
	}
	for _, b := range text {
		d := uint64(b - '0')
		if d > 9 {
			return 0, false
		}
		if len(text) == 20 {
			if over, low := bits.Mul64(v, 10); over > 0 || low > ^uint64(0)-d {
				return 0, false
			}
		}
		v = v*10 + d
	}
	return v, true
}
