package resp

import (
	"slices"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// valueRoom is the most that the reply to a key takes.
const valueRoom = len("$36\r\n") + id.MaxText + len("\r\n")

// get answers GET, and an MGET of one key. It returns what execute does.
func (s *Session) get(t *turn, key []byte, n int) (int, error) {
	if len(key) > protocol.MaxKey {
		t.blame(errKeyTooLong)
		return n, nil
	}
	run, err := t.Issue(s.config.Handler, key)
	if err != nil {
		return s.noID(t, err, n)
	}
	var text id.Text
	text.Start(run)
	t.Out = appendValue(slices.Grow(t.Out, valueRoom+id.Room), &text)
	return n, nil
}

// appendValue appends an id as a string. out must have room for it.
func appendValue(out []byte, text *id.Text) []byte {
	if n := text.Len(); n >= 10 {
		out = append(out, '$', byte('0'+n/10), byte('0'+n%10), '\r', '\n')
	} else {
		out = append(out, '$', byte('0'+n), '\r', '\n')
	}
	return text.AppendLine(out)
}

// noID answers a command that got none, unless it must wait. It returns what execute does.
func (s *Session) noID(t *turn, err error, n int) (int, error) {
	if err == id.ErrWait {
		return 0, err
	}
	s.refuse(t, err)
	return n, nil
}

// defaultKey is the key that names the default kind of id where a command needs a name.
const defaultKey = "id"

// increment answers INCR and INCRBY with the last of n new numbers. It returns what execute does.
func (s *Session) increment(t *turn, key []byte, by, n int) (int, error) {
	if len(key) > protocol.MaxKey {
		t.blame(errKeyTooLong)
		return n, nil
	}
	source := s.config.Handler.Named(key)
	if source == nil && string(key) == defaultKey {
		source = s.config.Handler.Source(key)
	}
	t.Remote = protocol.Redirect // it is a write
	defer func() { t.Remote = s.remote() }()
	var run id.Run
	var err error
	switch source := source.(type) {
	case nil:
		t.blame(errNoGenerator)
		return n, nil
	case id.Texter:
		t.blame(errNotNumber)
		return n, nil
	case id.Reserver:
		run, err = t.Reserve(source, by)
	default:
		if by > 1 {
			t.blame(errNoRange)
			return n, nil
		}
		run, err = t.Issue(s.config.Handler, key)
	}
	if err != nil {
		return s.noID(t, err, n)
	}
	t.Add(protocol.IncrHits, 1)
	var text id.Text
	text.Start(id.Run{First: run.First + uint64(by-1)*run.Stride, N: 1})
	t.Out = text.AppendLine(append(slices.Grow(t.Out, 1+id.Room), ':'))
	return n, nil
}

// getMany answers MGET. It checks all keys before it issues the first id, then answers in pieces. If
// no id can be issued for the first key, the client sees only the error; later an error takes the
// place of each id that is missing. It returns what execute does.
func (s *Session) getMany(t *turn, e *entry, a arguments, n int) (int, error) {
	guard, _ := s.config.Handler.(protocol.Guard)
	var denied error
	for b := a; b.n > 0; {
		key := b.next()
		if len(key) > protocol.MaxKey {
			t.blame(errKeyTooLong)
			return n, nil
		}
		if guard != nil && denied == nil {
			denied = guard.Permit(key)
		}
	}
	if denied != nil {
		t.Add(protocol.Refused, a.n)
		return s.noID(t, denied, n)
	}
	if a.n == 1 { // it is not bulk
		begin := len(t.Out)
		t.array(1)
		value := len(t.Out)
		n, err := s.get(t, a.next(), n)
		if err != nil || t.Out[value] == '-' {
			t.Out = append(t.Out[:begin], t.Out[value:]...)
		}
		return n, err
	}
	if s.turnsAway(t, e, a) {
		return n, nil
	}
	begin, all := len(t.Out), a.n
	t.array(all)
	err := s.piece(t, &a)
	if err != nil && a.n == all {
		if t.Out = t.Out[:begin]; err != id.ErrWait {
			t.Add(protocol.Refused, all)
		}
		return s.noID(t, err, n)
	}
	return n - s.pause(&a), waits(err)
}

// moreKeys continues with the keys of an MGET.
func (s *Session) moreKeys(t *turn, in []byte) (int, error) {
	n := int(s.scanned)
	if len(in) < n {
		return 0, nil
	}
	a := arguments{rest: in[:n], n: int(s.args)}
	if s.is&inlineKeys != 0 {
		a.inline, a.rest = true, trim(a.rest)
		a.end = n - len(a.rest)
	}
	if s.is&unproven != 0 && !a.proven() {
		_, n, err := s.malformed(t, in, "invalid state")
		return n, err
	}
	s.is &^= unproven
	err := s.piece(t, &a)
	return n - s.pause(&a), waits(err)
}

// waits returns err if it is id.ErrWait.
func waits(err error) error {
	if err != id.ErrWait {
		return nil
	}
	return err
}

// piece answers keys until the reply may have reached ReplyChunk. The error is that of the first Mint,
// or id.ErrWait.
func (s *Session) piece(t *turn, a *arguments) error {
	begin := len(t.Out)
	for a.n > 0 {
		room := (protocol.ReplyChunk - (len(t.Out) - begin)) / valueRoom
		if room <= 0 {
			break
		}
		rest, n, source := s.span(*a, room)
		missing, err := t.values(source, n)
		if err == nil {
			*a = rest
			continue
		}
		for range n - missing {
			a.next()
		}
		if err == id.ErrWait || len(t.Out) == begin && s.state != keys {
			return err
		}
		for ; missing > 0 && len(t.Out)-begin < protocol.ReplyChunk; missing-- {
			a.next()
			t.Add(protocol.Refused, 1)
			s.refuse(t, err)
		}
	}
	return nil
}

// values answers n keys of a source. missing is how many of them are not answered, because of err.
func (t *turn) values(source id.Source, n int) (missing int, err error) {
	out := slices.Grow(t.Out, n*valueRoom+id.Room)
	for n > 0 {
		run, err := t.Mint(source, n, true)
		if err != nil {
			t.Out = out
			return n, err
		}
		t.Add(protocol.IDs, run.N)
		var text id.Text
		text.Start(run)
		for i := range run.N {
			if i > 0 {
				text.Next()
			}
			out = appendValue(out, &text)
		}
		n -= run.N
	}
	t.Out = out
	return 0, nil
}

// span measures the run of neighbouring keys of one source at the start of a, up to limit keys. rest
// is what follows them.
func (s *Session) span(a arguments, limit int) (rest arguments, n int, source id.Source) {
	for source, n, rest = s.config.Handler.Source(a.next()), 1, a; n < limit && a.n > 0; n, rest = n+1, a {
		if s.config.Handler.Source(a.next()) != source {
			break
		}
	}
	return rest, n, source
}

// pause ends a piece of an MGET: it remembers the keys that are left, and returns how many bytes these
// take.
func (s *Session) pause(a *arguments) (left int) {
	s.is &^= inlineKeys
	if a.n == 0 {
		s.state, s.args, s.scanned = start, 0, 0
		return 0
	}
	if a.inline {
		s.is |= inlineKeys
	}
	left = len(a.rest) + a.end
	s.state, s.args, s.scanned = keys, uint16(a.n), uint32(left)
	return left
}
