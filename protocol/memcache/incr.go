package memcache

import (
	"encoding/binary"
	"slices"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// incr, ma and INCREMENT reserve a range of a counter: the answer to n is the last of n numbers that
// belong to this client, as if it had added n to an item.

// A verdict says why a command that increments a key got no numbers.
type verdict uint8

const (
	reserved   verdict = iota // it got them
	notFound                  // the key is not declared, or its ids are not counted
	nonNumeric                // its ids are not numbers
	badDelta                  // not 1 to id.MaxReserve
	failed                    // see the error
)

// reserve reserves delta numbers of a key. last is the last of them.
func (s *Session) reserve(t *turn, key []byte, delta uint64) (last id.Run, v verdict, err error) {
	switch source := s.config.Handler.Named(key).(type) {
	case id.Texter:
		return last, nonNumeric, nil
	case id.Reserver:
		if delta == 0 || delta > id.MaxReserve {
			return last, badDelta, nil
		}
		run, err := t.Reserve(source, int(delta))
		if err != nil {
			return last, failed, err
		}
		t.Add(protocol.IncrHits, 1)
		return id.Run{First: run.First + uint64(run.N-1)*run.Stride, N: 1}, reserved, nil
	}
	return last, notFound, nil
}

// incr answers the text command. With noreply the numbers are reserved, and no client learns them.
func (s *Session) incr(t *turn, rest []byte) error {
	t.Add(protocol.CmdIncr, 1)
	f := split(rest)
	delta, ok := parseUint(f.at(1), 64)
	if !t.wellFormed(&f, ok, errDelta) {
		return nil
	}
	quiet := f.noreply()
	last, v, err := s.reserve(t, f.at(0), delta)
	switch {
	case v == failed && (err == id.ErrWait || !quiet):
		return t.refuseOrWait(protocol.CmdIncr, err)
	case v == nonNumeric:
		t.blameUnless(quiet, errNonNumeric)
	case v == badDelta:
		t.blameUnless(quiet, errDelta)
	case quiet:
	case v == notFound:
		t.Say("NOT_FOUND\r\n")
	default:
		var text id.Text
		text.Start(last)
		t.Out = text.AppendLine(slices.Grow(t.Out, id.Room))
	}
	return nil
}

// An arithmetic is what the flags of ma ask for.
type arithmetic struct {
	delta    uint64 // D
	mode     []byte // M
	quiet    bool   // q
	compares bool   // C: only if the cas is still the same
}

func parseArithmetic(m *meta) arithmetic {
	a := arithmetic{delta: 1}
	for flag, more, _ := cut(m.flags); len(flag) > 0; flag, more, _ = cut(more) {
		switch token := flag[1:]; flag[0] {
		case 'D':
			a.delta, _ = parseUint(token, 64)
		case 'M':
			a.mode = flag
		case 'q':
			a.quiet = true
		case 'C':
			cas, _ := parseUint(token, 64)
			a.compares = cas != 0
		}
	}
	return a
}

// metaArithmetic answers ma. A counter cannot be decremented, and another client may have got the
// next number at any moment, so a cas never matches.
func (s *Session) metaArithmetic(t *turn, rest []byte) error {
	t.Add(protocol.CmdIncr, 1)
	m, complaint := parseMiss(rest)
	a := parseArithmetic(&m)
	if (complaint == "" || complaint == errMetaOpaque) && a.mode != nil {
		switch {
		case len(a.mode) != 2:
			complaint = errMissFlag
		case a.mode[1] != 'I' && a.mode[1] != '+' && a.mode[1] != 'D' && a.mode[1] != '-':
			complaint = errMetaMode
		}
	}
	if complaint != "" {
		t.blame(complaint)
		return nil
	}
	t.Out = slices.Grow(t.Out, metaRoom+len(m.key))
	name := m.name(t.Out)
	if a.mode != nil && (a.mode[1] == 'D' || a.mode[1] == '-') {
		t.metaAnswer("NF", &m)
		return nil
	}
	if a.compares && s.has(name) {
		t.metaAnswer("EX", &m)
		return nil
	}
	last, v, err := s.reserve(t, name, a.delta)
	switch v {
	case failed:
		return t.refuseOrWait(protocol.CmdIncr, err)
	case nonNumeric:
		t.blame(errNonNumeric)
	case badDelta:
		t.blame(errDelta)
	case notFound:
		t.metaAnswer("NF", &m)
	default:
		if !a.quiet {
			t.metaNumber(&m, last)
		}
	}
	return nil
}

// has reports whether a key is one that a command may increment, or refuse to because it is a text.
func (s *Session) has(key []byte) bool {
	switch s.config.Handler.Named(key).(type) {
	case id.Reserver, id.Texter:
		return true
	}
	return false
}

// metaNumber is the answer to an ma that got numbers. t.Out has room for it.
func (t *turn) metaNumber(m *meta, last id.Run) {
	var text id.Text
	text.Start(last)
	out := t.Out
	if m.value {
		out = appendLen(append(out, "VA "...), &text)
	} else {
		out = append(out, "HD"...)
	}
	for flag, more, _ := cut(m.flags); len(flag) > 0; flag, more, _ = cut(more) {
		switch flag[0] {
		case 'c':
			out = text.AppendNumber(append(out, " c"...))
		case 't':
			out = append(out, " t-1"...)
		default:
			out = m.echo(out, flag)
		}
	}
	if out = append(out, "\r\n"...); m.value {
		out = text.AppendLine(out)
	}
	t.Out = out
}

// binaryIncr answers INCREMENT, whose extras begin with the delta, with the number in 8 bytes, which is
// also the cas. The other extras say what to do about a key that does not exist.
func (s *Session) binaryIncr(t *turn, h *header, key, extras []byte, quiet bool) error {
	if h.cas && s.has(key) { // see metaArithmetic
		t.fail(h, failExists)
		return nil
	}
	last, v, err := s.reserve(t, key, binary.BigEndian.Uint64(extras))
	switch v {
	case failed:
		return t.respondError(h, err)
	case nonNumeric:
		t.Add(protocol.Malformed, 1)
		t.fail(h, failNonNumber)
	case badDelta:
		t.Add(protocol.Malformed, 1)
		t.fail(h, failInvalid)
	case notFound:
		t.fail(h, failNotFound)
	default:
		if !quiet {
			t.Out = h.appendResponse(t.Out, statusOK, 0, 0, 8, last.First)
			t.Out = binary.BigEndian.AppendUint64(t.Out, last.First)
		}
	}
	return nil
}
