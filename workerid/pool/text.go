package pool

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// ErrUnreadable: a text is not one of ours, or of a version that this program does not know. It is
// never guessed. An unreadable record counts as lost, an unreadable meta refuses everything.
var ErrUnreadable = errors.New("not readable")

const (
	version   = "1"
	maxDigits = 15  // of a number; 999999999999999 ms is the year 33658
	maxToken  = 100 // bytes
	maxField  = 300 // bytes of an owner, an address or a fingerprint, after escaping
)

// Meta is what all daemons of a pool share. Times are Unix ms, durations ms.
type Meta struct {
	Epoch       string // a request id: another one whenever grants may have been forgotten
	Floor       int64  // newcomers' windows start above it
	Fingerprint string // of the layout
	Lease       int64  // how far a window reaches into the future
	Epsilon     int64  // the margin for clocks that differ
	Min, Max    uint64 // worker ids, both inclusive
}

// Record is what is recorded of one worker id. Times are Unix ms. The zero Record was never used.
type Record struct {
	Mark  int64  // the high-water mark: no window up to here may be granted again
	Lo    int64  // start of the holder's window
	Token string // request id of the last write; empty if there was none
	Owner string // empty after a release
}

// Presence says that a daemon holds a worker id and that its session lives.
type Presence struct{ Owner, Addr string }

// Settings are what all daemons of a pool must share, as Terms.Fingerprint writes them.
func (m Meta) Settings() string {
	return workerid.Terms{Layout: m.Fingerprint, Lease: time.Duration(m.Lease) * time.Millisecond, Min: m.Min,
		Max: m.Max}.Fingerprint()
}

// String writes the text of a meta record.
func (m Meta) String() string {
	return strings.Join([]string{
		version, cmp.Or(m.Epoch, "-"), itoa(m.Floor), escape(m.Fingerprint), itoa(m.Lease), itoa(m.Epsilon),
		strconv.FormatUint(m.Min, 10), strconv.FormatUint(m.Max, 10),
	}, " ")
}

// String writes the text of a worker id's record.
func (r Record) String() string {
	return strings.Join([]string{version, itoa(r.Mark), itoa(r.Lo), cmp.Or(r.Token, "-"), escape(r.Owner)}, " ")
}

// String writes the text of a presence.
func (p Presence) String() string {
	return strings.Join([]string{version, escape(p.Owner), escape(p.Addr)}, " ")
}

// ParseMeta reads what Meta.String wrote, and nothing else.
func ParseMeta(text string) (Meta, error) {
	f, err := split(text, 8)
	if err != nil {
		return Meta{}, err
	}
	m := Meta{Epoch: f.token(1), Floor: f.number(2), Fingerprint: f.text(3), Lease: f.number(4), Epsilon: f.number(5),
		Min: uint64(f.number(6)), Max: uint64(f.number(7))}
	if f.err == nil && (m.Epoch == "" || m.Lease == 0 || m.Min > m.Max) {
		f.err = fmt.Errorf("%w: %q", ErrUnreadable, text)
	}
	return m, f.err
}

// ParseRecord reads what Record.String wrote, and nothing else.
func ParseRecord(text string) (Record, error) {
	f, err := split(text, 5)
	if err != nil {
		return Record{}, err
	}
	r := Record{Mark: f.number(1), Lo: f.number(2), Token: f.token(3), Owner: f.text(4)}
	return r, f.err
}

// ParsePresence reads what Presence.String wrote, and nothing else.
func ParsePresence(text string) (Presence, error) {
	f, err := split(text, 3)
	if err != nil {
		return Presence{}, err
	}
	return Presence{Owner: f.text(1), Addr: f.text(2)}, f.err
}

// fields are those of a text. err is the first that was wrong.
type fields struct {
	all [8]string
	err error
}

func split(text string, n int) (f fields, err error) {
	have := 0
	for rest, more := text, true; more; have++ {
		var field string
		if field, rest, more = strings.Cut(rest, " "); have < len(f.all) {
			f.all[have] = field
		}
	}
	if f.all[0] != version {
		return f, fmt.Errorf("%w: version %.20q, and this program knows only %s", ErrUnreadable, f.all[0], version)
	}
	if have != n {
		return f, fmt.Errorf("%w: %d fields instead of %d", ErrUnreadable, have, n)
	}
	return f, nil
}

func (f *fields) bad(i int, why string) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: field %d, %.40q: %s", ErrUnreadable, i+1, f.all[i], why)
	}
}

func (f *fields) number(i int) int64 {
	s := f.all[i]
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || len(s) > maxDigits || s[0] == '0' && s != "0" {
		f.bad(i, "not a number of at most 15 digits")
		return 0
	}
	return int64(n)
}

func (f *fields) token(i int) string {
	s := f.all[i]
	if s == "-" {
		return ""
	}
	if s == "" || len(s) > maxToken || strings.ContainsFunc(s, notInToken) {
		f.bad(i, "not a request id")
		return ""
	}
	return s
}

func notInToken(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '.' && c != '_'
}

func (f *fields) text(i int) string {
	s := f.all[i]
	t, err := url.PathUnescape(s)
	if s == "-" {
		t = ""
	}
	if err != nil || len(s) > maxField || escape(t) != s {
		f.bad(i, "not a text as this program writes it")
		return ""
	}
	return t
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// escape writes a text without spaces: an empty one as -, and other bytes than printable ASCII, % and
// a lone - as %XX.
func escape(s string) string {
	switch s {
	case "":
		return "-"
	case "-":
		return "%2D"
	}
	escaped := func(c rune) bool { return c <= ' ' || c > '~' || c == '%' }
	if !strings.ContainsFunc(s, escaped) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; escaped(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
