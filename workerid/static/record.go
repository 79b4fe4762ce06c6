package static

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A record is the content of a state file. One copy of it is copySize bytes of ASCII:
//
//	katsubushi state 1
//	generation 42
//	worker 7
//	mark 1732060802000
//	reserve 2000
//	fingerprint epoch=1420070400000;unit=1ms;bits=41/10/12;order=time,worker,sequence
//	machine 4be5a3c2e0b94d60a3f6e1d2c3b4a596
//	boot 0f0e4cda-6b24-4a0e-a7b2-2a3e1d0c9b8a
//	offset 1731990000123
//	crc32c 1a2b3c4d
//
// and newlines up to the end. The checksum (Castagnoli's polynomial, hexadecimal) covers everything
// before its line. Only newlines may follow its digits, so that no byte can change unnoticed. Numbers
// are decimal and have only one spelling. An unknown text is "-".
//
// The boot id may be followed by what ties the run that wrote it to its page of memory, see run:
//
//	boot 0f0e4cda-6b24-4a0e-a7b2-2a3e1d0c9b8a;K5XQ3ZJ7T2M4WB6LHD3YNC5EFA;fd00-c0a1;19-3f2-18795c3c47e9e400
//
// After a clean stop, ";" or ";forgets", and ";stopped" follow. Older builds take all that they do not
// know for another boot id, and write their own without it. So they can continue from these files, and
// leave no page's name behind that could be taken for theirs.
type record struct {
	Generation  uint64 // grows with each write: of two whole copies the one with the larger is meant
	Worker      uint64
	HighWater   int64  // the last Unix ms that ids may have been issued from
	Reserve     int64  // ms that HighWater may lie ahead of the clock, or the lower mark that the run shares
	Fingerprint string // of the layout
	Machine     string // identity of the machine, see identity.go
	Boot        string // the kernel's boot id when it was written
	Run         run    // that wrote it; zero if a release before or an operator did
	Offset      int64  // wall clock − CLOCK_BOOTTIME, ms, as far as it was trusted then
}

// A run is one process's use of the worker id since an Acquire. The next run may have to recognise it.
type run struct {
	Nonce   string // no other run's
	Lock    string // the lock file that it held when it wrote the record, see File.ID
	Page    string // where its generator's word is, see Page.ID; empty if nowhere
	Forgets bool   // what should have outlived a process did not, the last time that this could be told
	Stopped bool   // it has stopped cleanly: the mark is its last id's
}

const (
	copySize = durable.CopySize
	maxText  = 256 // bytes of one text field
	forgets  = "forgets"
	stopped  = "stopped"
)

var format = durable.Format{Kind: "state", Version: "1"}

// encode appends one copy to b.
func (r *record) encode(b []byte) []byte { return format.Append(b, r.body()) }

func (r *record) body() string {
	return fmt.Sprintf("generation %d\nworker %d\nmark %d\nreserve %d\nfingerprint %s\nmachine %s\nboot %s\noffset %d\n",
		r.Generation, r.Worker, r.HighWater, r.Reserve, orDash(r.Fingerprint), orDash(r.Machine), orDash(r.origin()),
		r.Offset)
}

// origin returns the text of Boot and Run.
func (r *record) origin() string {
	if r.Run == (run{}) {
		return r.Boot
	}
	parts := []string{r.Boot, r.Run.Nonce, r.Run.Lock, r.Run.Page}
	switch {
	case r.Run.Forgets:
		parts = append(parts, forgets)
	case r.Run.Stopped:
		parts = append(parts, "")
	}
	if r.Run.Stopped {
		parts = append(parts, stopped)
	}
	return strings.Join(parts, ";")
}

// setOrigin parses a text of origin. decode detects a text that origin would not have written.
func (r *record) setOrigin(s string) {
	parts := strings.Split(s, ";")
	r.Boot, r.Run = s, run{}
	if n := len(parts); n >= 4 && n <= 6 {
		r.Boot, r.Run = parts[0], run{parts[1], parts[2], parts[3], n > 4 && parts[4] != "", n == 6}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func unDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// names begin the lines of a body.
var names = [...]string{"generation ", "worker ", "mark ", "reserve ", "fingerprint ", "machine ", "boot ", "offset "}

func isWord(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsSpace) }

// decode reads one copy. It accepts exactly what encode writes.
func decode(b []byte) (record, error) {
	var r record
	text, err := format.Body(b)
	if err != nil {
		return r, err
	}
	var values [len(names)]string
	for i, name := range names {
		line, rest, _ := strings.Cut(text, "\n")
		if values[i], text = strings.TrimPrefix(line, name), rest; !isWord(values[i]) {
			return r, fmt.Errorf("%q where %sis expected", line, name)
		}
	}
	r.Generation, _ = strconv.ParseUint(values[0], 10, 64) // what is no number is not as we write it either
	r.Worker, _ = strconv.ParseUint(values[1], 10, 64)
	r.HighWater, _ = strconv.ParseInt(values[2], 10, 64)
	r.Reserve, _ = strconv.ParseInt(values[3], 10, 64)
	r.Offset, _ = strconv.ParseInt(values[7], 10, 64)
	r.Fingerprint, r.Machine = unDash(values[4]), unDash(values[5])
	r.setOrigin(unDash(values[6]))
	if err := format.Same(b, r.body()); err != nil { // readable, but not as we write it
		return record{}, err
	}
	return r, nil
}

// check returns why the record cannot be written, or nil.
func (r *record) check() error {
	for name, s := range map[string]string{"fingerprint": r.Fingerprint, "machine": r.Machine, "boot": r.origin()} {
		if len(s) > maxText || s == "-" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return fmt.Errorf("static: %s %q: at most %d printable characters without spaces allowed", name, s, maxText)
		}
	}
	return nil
}

// recoverRecord finds the record of a whole file, see durable.Recover.
func recoverRecord(b []byte) (record, []string, error) {
	return durable.Recover(b, func(b []byte) (record, uint64, error) {
		r, err := decode(b)
		return r, r.Generation, err
	})
}
