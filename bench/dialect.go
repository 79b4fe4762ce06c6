package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// A dialect is one kind of request and the grammar of its answer.
type dialect interface {
	// request returns depth requests in a row.
	request(depth int) []byte
	// stamp makes the requests of one batch differ from those of the last, where the protocol has
	// room for that.
	stamp(batch []byte, p *progress)
	// check walks over what arrived on one stream and consumes all whole items: a VALUE block, a
	// frame, a line. It counts the answers that they complete. What it leaves is the beginning of a
	// good item, shorter than maxItem.
	check(p *progress, in []byte) (consumed, answers int, err error)
}

// progress is where one stream stands.
type progress struct {
	item   int    // text: VALUE blocks of the current answer that have arrived
	asked  uint32 // binary: opaque of the last request that was sent
	opaque uint32 // binary: opaque of the last answer that arrived
}

const (
	maxItem   = 512                   // bytes of an item, the longest being a VALUE line with a key of 250
	benchID   = "1234567890123456789" // what a server that stores values is given to answer: as long as an id
	maxDigits = 20                    // of an unsigned 64-bit integer
	maxText   = 36                    // bytes of an id: a UUID's
)

var errPartial = errors.New("more bytes are needed")

// A wrongAnswer shows what came and what should have come.
type wrongAnswer struct {
	want string
	got  []byte
}

func (e *wrongAnswer) Error() string {
	got, more := e.got, ""
	if len(got) > 120 {
		got, more = got[:120], "..."
	}
	return fmt.Sprintf("wrong answer: want %s, got %q%s", e.want, got, more)
}

// wrong makes the error; the bytes are copied, since the generator's buffer is used again.
func wrong(want string, got []byte) error { return &wrongAnswer{want, bytes.Clone(got)} }

// idCheck looks at the integers themselves. Without a set it only sees that they are digits.
type idCheck struct {
	seen *unique.Set
}

// number accepts a decimal integer without leading zeros.
func (c idCheck) number(b []byte) error {
	if c.seen == nil && len(b) == 19 {
		if allDigits8(b) && allDigits8(b[8:]) && allDigits8(b[11:]) && b[0] != '0' {
			return nil
		}
		return wrong("19 digits", b)
	}
	if len(b) == 0 || len(b) > maxDigits || (b[0] == '0' && len(b) > 1) {
		return wrong("a decimal integer", b)
	}
	var id uint64
	for _, d := range b {
		if d < '0' || d > '9' {
			return wrong("a decimal integer", b)
		}
		id = id*10 + uint64(d-'0')
	}
	if c.seen != nil && !c.seen.Add(id) {
		return fmt.Errorf("duplicate id %d", id)
	}
	return nil
}

// allDigits8 reports whether b[:8] are digits: the high half of each byte is 3 before and after
// adding 6.
func allDigits8(b []byte) bool {
	v := binary.LittleEndian.Uint64(b)
	return v&0xF0F0F0F0F0F0F0F0 == 0x3030303030303030 && (v+0x0606060606060606)&0xF0F0F0F0F0F0F0F0 == 0x3030303030303030
}

// text accepts an id that is not a number: letters, digits and hyphens. Two of them count as the
// same id if 64 bits of their hash agree, which no run is long enough to see by accident.
func (c idCheck) text(b []byte) error {
	h := uint64(14695981039346656037) // FNV-1a
	for _, d := range b {
		if (d < '0' || d > '9') && (d < 'a' || d > 'z') && (d < 'A' || d > 'Z') && d != '-' {
			return wrong("letters, digits and hyphens", b)
		}
		h = (h ^ uint64(d)) * 1099511628211
	}
	if c.seen != nil && !c.seen.Add(h) {
		return fmt.Errorf("duplicate id %s", b)
	}
	return nil
}

// literal accepts want at the start of in, whole (n = its length) or as far as it has arrived
// (errPartial).
func literal(in []byte, want string) (n int, err error) {
	if len(in) >= len(want) {
		if string(in[:len(want)]) == want {
			return len(want), nil
		}
	} else if string(in) == want[:len(in)] {
		return 0, errPartial
	}
	return 0, wrong(fmt.Sprintf("%q", want), in)
}

// A lineDialect is a protocol of lines: values, each "HEAD LENGTH\r\nTEXT\r\n", and then a tail.
type lineDialect struct {
	ids  idCheck
	ask  string
	head []string // of each value, up to its length: "VALUE id 0 "
	tail string
	text int // length of ids that are not numbers; 0 = they are numbers

	last int // length of the last value, which the next one most likely has too
}

// sizes are the lengths of ids as text, each with the end of the line.
var sizes = func() (s [maxText + 1]string) {
	for n := range s {
		s[n] = fmt.Sprintf("%d\r\n", n)
	}
	return s
}()

// newText is memcached's get of a key. More than one key are different ones, as client libraries
// send them, unless the key is a declared name: then it is the same one, again and again.
func newText(key string, keys int, ids idCheck) *lineDialect {
	d := &lineDialect{ids: ids, tail: "END\r\n", text: textLength[key]}
	names := keyNames(key, keys)
	d.ask = "get " + strings.Join(names, " ") + "\r\n"
	for _, k := range names {
		d.head = append(d.head, "VALUE "+k+" 0 ")
	}
	return d
}

// newMeta is memcached's meta get, which answers with nothing but the value.
func newMeta(ids idCheck) *lineDialect {
	return &lineDialect{ids: ids, ask: "mg id v\r\n", head: []string{"VA "}}
}

// respGet is redis's GET.
func respGet(key string, ids idCheck) *lineDialect {
	return &lineDialect{ids: ids, ask: respCommand("GET", key), head: []string{"$"}, text: textLength[key]}
}

// respCommand is a command as RESP has it.
func respCommand(words ...string) string {
	s := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		s += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return s
}

// keyNames are the keys of one get.
func keyNames(key string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = key
		if n > 1 && key == "id" {
			names[i] = fmt.Sprintf("id%02d", i)
		}
	}
	return names
}

func (d *lineDialect) request(depth int) []byte { return []byte(strings.Repeat(d.ask, depth)) }
func (d *lineDialect) stamp([]byte, *progress)  {}

func (d *lineDialect) check(p *progress, in []byte) (consumed, answers int, err error) {
	for consumed < len(in) {
		n, err := d.item(p.item, in[consumed:])
		if err == errPartial {
			break
		}
		if err != nil {
			return consumed, answers, err
		}
		consumed += n
		if p.item++; p.item == d.items() {
			p.item, answers = 0, answers+1
		}
	}
	return consumed, answers, nil
}

func (d *lineDialect) items() int {
	if d.tail == "" {
		return len(d.head)
	}
	return len(d.head) + 1
}

// item accepts the i-th item of an answer and returns its length.
func (d *lineDialect) item(i int, in []byte) (n int, err error) {
	if i == len(d.head) {
		return literal(in, d.tail)
	}
	head := d.head[i]
	const end = "\r\n"
	size := sizes[d.last]
	from := len(head) + len(size)
	to := from + d.last
	if d.last > 0 && len(in) >= to+len(end) && string(in[:len(head)]) == head && string(in[len(head):from]) == size &&
		string(in[to:to+len(end)]) == end {
		return to + len(end), d.value(in[from:to])
	}
	return d.slowValue(head, in)
}

// value accepts an id.
func (d *lineDialect) value(b []byte) error {
	if d.text > 0 {
		return d.ids.text(b)
	}
	return d.ids.number(b)
}

// slowValue accepts what item does not expect: values of another length, and those that have not
// arrived as a whole.
func (d *lineDialect) slowValue(head string, in []byte) (n int, err error) {
	if n, err = literal(in, head); err != nil {
		return 0, err
	}
	least, most, size := 1, maxDigits, 0
	if d.text > 0 {
		least, most = d.text, d.text
	}
	from := n
	for ; n < len(in) && in[n] >= '0' && in[n] <= '9' && size < 10; n++ {
		size = size*10 + int(in[n]-'0')
	}
	if n == len(in) && size <= most {
		return 0, errPartial
	}
	if size < least || size > most {
		return 0, wrong(fmt.Sprintf("%q and a length of %d to %d", head, least, most), in)
	}
	if _, err = literal(in[n:], "\r\n"); err != nil {
		return 0, asWrong(err, in)
	}
	n += 2
	if len(in) < n+size {
		return 0, errPartial
	}
	if _, err = literal(in[n+size:], "\r\n"); err != nil {
		return 0, asWrong(err, in)
	}
	if string(in[from:n]) == sizes[size] {
		d.last = size
	}
	return n + size + 2, d.value(in[n : n+size])
}

// asWrong shows the whole item instead of its wrong part.
func asWrong(err error, in []byte) error {
	if w, ok := err.(*wrongAnswer); ok {
		return wrong(w.want+" at the end of the line", in)
	}
	return err
}

// respDialect is redis's INCR, the nearest that redis has to an id: ":7\r\n".
type respDialect struct {
	ids idCheck
	ask string
}

func respIncr(key string, ids idCheck) respDialect { return respDialect{ids, respCommand("INCR", key)} }

func (d respDialect) request(depth int) []byte { return []byte(strings.Repeat(d.ask, depth)) }
func (d respDialect) stamp([]byte, *progress)  {}

func (d respDialect) check(p *progress, in []byte) (consumed, answers int, err error) {
	for consumed < len(in) {
		rest := in[consumed:]
		end := bytes.IndexByte(rest, '\n')
		if rest[0] != ':' || end > maxDigits+2 || (end < 0 && len(rest) > maxDigits+2) || (end > 0 && rest[end-1] != '\r') {
			return consumed, answers, wrong(`":", an integer and "\r\n"`, rest)
		}
		if end < 0 {
			break
		}
		if err := d.ids.number(rest[1 : end-1]); err != nil {
			return consumed, answers, err
		}
		consumed, answers = consumed+end+1, answers+1
	}
	return consumed, answers, nil
}

type binaryDialect struct{ ids idCheck }

const (
	binHeader  = 24
	binRequest = binHeader + len("id")
	binOpaque  = 12 // where the opaque is
)

func (d binaryDialect) request(depth int) []byte {
	one := append(make([]byte, binHeader), "id"...)
	one[0] = 0x80          // magic; opcode 0 is GET
	one[3], one[11] = 2, 2 // length of the key, and of the body
	return bytes.Repeat(one, depth)
}

func (d binaryDialect) stamp(batch []byte, p *progress) {
	for ; len(batch) > 0; batch = batch[binRequest:] {
		p.asked++
		binary.BigEndian.PutUint32(batch[binOpaque:], p.asked)
	}
}

func (d binaryDialect) check(p *progress, in []byte) (consumed, answers int, err error) {
	// GET, no key, 4 bytes of extras, status 0, up to the last byte of the length
	const before = "\x81\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00"
	for len(in)-consumed >= binHeader {
		rest := in[consumed:]
		if string(rest[:len(before)]) != before || rest[11] < 4+1 || rest[11] > 4+maxDigits {
			return consumed, answers, wrong("a GET response with 4 bytes of extras and an integer", rest)
		}
		if opaque := binary.BigEndian.Uint32(rest[binOpaque:]); opaque != p.opaque+1 {
			return consumed, answers, wrong(fmt.Sprintf("opaque %#x", p.opaque+1), rest)
		}
		size := binHeader + int(rest[11])
		if len(rest) < size {
			break
		}
		if string(rest[binHeader:binHeader+4]) != "\x00\x00\x00\x00" {
			return consumed, answers, wrong("flags 0", rest)
		}
		if err := d.ids.number(rest[binHeader+4 : size]); err != nil {
			return consumed, answers, err
		}
		p.opaque++
		consumed, answers = consumed+size, answers+1
	}
	return consumed, answers, nil
}
