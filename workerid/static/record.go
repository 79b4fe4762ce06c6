package static

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A record is what a state file remembers. One copy of it is copySize bytes of ASCII:
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
// and newlines up to the end. The checksum (Castagnoli's polynomial, hexadecimal) is that of everything before its line; what follows its
// digits must be newlines, so that no byte can change unnoticed. Numbers are decimal and written in one way only. An unknown text is "-".
type record struct {
	Generation  uint64 // grows with each write: of two whole copies the one with the larger is meant
	Worker      uint64
	Mark        int64  // the last Unix ms that ids may have been issued from
	Reserve     int64  // ms that Mark may lie ahead of the clock
	Fingerprint string // of the layout
	Machine     string // identity of the machine, see identity.go
	Boot        string // the kernel's boot id when it was written
	Offset      int64  // wall clock − CLOCK_BOOTTIME, ms, as far as it was trusted then
}

const (
	copySize = 4096 // bytes of one copy: a page, and a sector of any disk
	fileSize = 2 * copySize
	header   = "katsubushi state "
	version  = "1"
	maxText  = 256 // bytes of one text field
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errChecksum = errors.New("checksum does not match")
	errVersion  = errors.New("written by another version of katsubushi")
)

// encode appends one copy to b.
func (r *record) encode(b []byte) []byte {
	start := len(b)
	b = append(b, header+version+"\n"...)
	b = fmt.Appendf(b, "generation %d\nworker %d\nmark %d\nreserve %d\n", r.Generation, r.Worker, r.Mark, r.Reserve)
	b = fmt.Appendf(b, "fingerprint %s\nmachine %s\nboot %s\noffset %d\n", orDash(r.Fingerprint), orDash(r.Machine), orDash(r.Boot), r.Offset)
	b = fmt.Appendf(b, "crc32c %08x", crc32.Checksum(b[start:], castagnoli))
	return append(b, bytes.Repeat([]byte{'\n'}, start+copySize-len(b))...)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// decode reads one copy. It accepts exactly what encode writes.
func decode(b []byte) (record, error) {
	var r record
	if len(b) != copySize {
		return r, fmt.Errorf("%d bytes where %d were expected", len(b), copySize)
	}
	end := bytes.Index(b, []byte("\ncrc32c ")) + 1
	if end == 0 || end+len("crc32c 00000000") > len(b) || !bytes.HasPrefix(b, []byte(header)) {
		return r, errors.New("not a state file")
	}
	sum, err := strconv.ParseUint(string(b[end+len("crc32c "):][:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(b[:end], castagnoli) {
		return r, errChecksum
	}
	if !bytes.HasPrefix(b, []byte(header+version+"\n")) {
		return r, errVersion
	}
	text := string(b[len(header+version+"\n"):end])
	_, err = fmt.Sscanf(text, "generation %d\nworker %d\nmark %d\nreserve %d\nfingerprint %s\nmachine %s\nboot %s\noffset %d\n",
		&r.Generation, &r.Worker, &r.Mark, &r.Reserve, &r.Fingerprint, &r.Machine, &r.Boot, &r.Offset)
	if err != nil {
		return record{}, err
	}
	for _, s := range []*string{&r.Fingerprint, &r.Machine, &r.Boot} {
		if *s == "-" {
			*s = ""
		}
	}
	if !bytes.Equal(r.encode(nil), b) {
		return record{}, errChecksum // readable, but not as we write it
	}
	return r, nil
}

// check says why the record could not be written.
func (r *record) check() error {
	for name, s := range map[string]string{"fingerprint": r.Fingerprint, "machine": r.Machine, "boot": r.Boot} {
		if len(s) > maxText || s == "-" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return fmt.Errorf("static: %s %q: at most %d printable characters without spaces allowed", name, s, maxText)
		}
	}
	return nil
}

// recoverRecord finds the record of a whole file: that of the newer copy, if both are good. damaged says what is wrong with each copy that is
// not; err is non-nil when none is good.
func recoverRecord(b []byte) (r record, damaged []string, err error) {
	found := false
	for i, name := range []string{"first", "second"} {
		from := min(i*copySize, len(b))
		c, err := decode(b[from:min(from+copySize, len(b))])
		switch {
		case errors.Is(err, errVersion):
			return record{}, nil, err
		case err != nil:
			damaged = append(damaged, fmt.Sprintf("%s copy: %v", name, err))
		case !found || c.Generation > r.Generation:
			r, found = c, true
		}
	}
	if len(b) > fileSize {
		damaged = append(damaged, fmt.Sprintf("more than %d bytes", fileSize))
	}
	if !found {
		return record{}, damaged, fmt.Errorf("%w: %s", ErrDamaged, strings.Join(damaged, ", "))
	}
	return r, damaged, nil
}
