package memcache

import (
	"math"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// An answer is the reply at the end of a data block that was correctly terminated.
type answer uint8

const (
	// Whatever the terminator is: the error was already sent, or the client asked for noreply.
	sayNothing   answer = iota
	sayReadOnly         // the block was correct, but this server stores nothing
	sayNotStored        // what add replies for a key that exists, and here every key exists
)

// store answers the line of a storage command. It discards the data block before it looks for the
// next command, whatever is wrong with the line, if only the length can be read. least is how many
// arguments the command needs; noreply may follow.
func (s *Session) store(t *turn, rest []byte, least int, a answer) {
	f := split(rest)
	t.Add(protocol.CmdSet, 1)
	if f.n != least && f.n != least+1 {
		t.blame(errUnknown)
		return
	}
	quiet := f.noreply()
	size, ok := parseSize(f.at(3))
	if !ok {
		t.blameUnless(quiet, errFormat)
		return
	}
	s.state, s.answer, s.left = body, a, uint32(size)
	_, goodFlags := parseUint(f.at(1), 32)
	_, goodExptime := parseInt(f.at(2), 32)
	goodCas := true
	if least == 5 {
		_, goodCas = parseUint(f.at(4), 64)
	}
	switch {
	case len(f.at(0)) > protocol.MaxKey || !goodFlags || !goodExptime || !goodCas:
		t.blameUnless(quiet, errFormat)
		s.swallow(size + 2)
	case size > MaxBody:
		t.Add(protocol.TooLong, 1)
		if !quiet {
			t.Say(errTooLarge)
		}
		s.swallow(size + 2)
	case quiet:
		s.swallow(size + 2)
	}
}

// parseSize reads the length of a data block.
func parseSize(b []byte) (n int64, ok bool) {
	n, ok = parseInt(b, 32)
	return n, ok && n >= 0 && n <= math.MaxInt32-2
}

// swallow discards the next n bytes, at least 1.
func (s *Session) swallow(n int64) {
	s.state, s.answer, s.left = body, sayNothing, uint32(n)
}

// body discards a data block as it arrives and counts its bytes. It never holds more of it than the
// terminator.
func (s *Session) body(t *turn, in []byte) int {
	if s.left > 0 {
		n := min(int(s.left), len(in))
		s.left -= uint32(n)
		if s.left == 0 && s.answer == sayNothing {
			s.ready()
		}
		return n
	}
	if len(in) < 2 {
		return 0
	}
	s.ready()
	switch {
	case in[0] != '\r' || in[1] != '\n':
		t.blame(errChunk)
	case s.answer == sayNotStored:
		t.Say("NOT_STORED\r\n")
	default:
		t.Say(errReadOnly)
	}
	return 2
}

// delete, touch and decr look for a key and never find one: an id exists only once it is issued.

func (t *turn) delete(rest []byte) {
	f := split(rest)
	t.Add(protocol.CmdDelete, 1)
	quiet := f.n > 1 && f.noreply()
	zero := string(f.at(1)) == "0"
	switch {
	case f.n < 1 || f.n > 3:
		t.blame(errUnknown)
	case f.n == 2 && !zero && !quiet, f.n == 3 && !(zero && quiet):
		t.blameUnless(quiet, errDelete)
	case len(f.at(0)) > protocol.MaxKey:
		t.blameUnless(quiet, errFormat)
	case !quiet:
		t.Say("NOT_FOUND\r\n")
	}
}

func (t *turn) touch(rest []byte) {
	t.Add(protocol.CmdTouch, 1)
	f := split(rest)
	_, ok := parseInt(f.at(1), 32)
	t.keyAndNumber(&f, ok, errExptime)
}

func (t *turn) decr(rest []byte) {
	t.Add(protocol.CmdIncr, 1)
	f := split(rest)
	_, ok := parseUint(f.at(1), 64)
	t.keyAndNumber(&f, ok, errDelta)
}

// keyAndNumber answers a command that takes a key, which is never found, and a number.
func (t *turn) keyAndNumber(f *fields, ok bool, complaint string) {
	if t.wellFormed(f, ok, complaint) && !f.noreply() {
		t.Say("NOT_FOUND\r\n")
	}
}

// wellFormed reports whether the fields are a key, a number, which ok says, and perhaps noreply. If
// they are not, it answers so.
func (t *turn) wellFormed(f *fields, ok bool, complaint string) bool {
	switch {
	case f.n != 2 && f.n != 3:
		t.blame(errUnknown)
	case len(f.at(0)) > protocol.MaxKey:
		t.blameUnless(f.noreply(), errFormat)
	case !ok:
		t.blameUnless(f.noreply(), complaint)
	default:
		return true
	}
	return false
}

func (t *turn) flushAll(rest []byte) {
	t.Add(protocol.CmdFlush, 1)
	f := split(rest)
	quiet := f.noreply()
	_, ok := parseInt(f.at(0), 32)
	switch {
	case f.n > 2:
		t.blame(errUnknown)
	case f.n > 0 && !(quiet && f.n == 1) && !ok:
		t.blameUnless(quiet, errExptime)
	case !quiet:
		t.Say("OK\r\n")
	}
}

func (t *turn) verbosity(rest []byte) {
	t.Add(protocol.CmdOther, 1)
	f := split(rest)
	quiet := f.noreply()
	_, ok := parseUint(f.at(0), 32)
	switch {
	case f.n < 1 || f.n > 2:
		t.blame(errUnknown)
	case !ok:
		t.blameUnless(quiet, errFormat)
	case !quiet:
		t.Say("OK\r\n")
	}
}
