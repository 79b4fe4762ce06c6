package memcache

import (
	"slices"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A form describes the VALUE lines of a get, and the kind it is counted as.
type form struct {
	kind protocol.Counter
	cas  bool // a fifth field: the id again
}

// get answers the keys of a get line. It checks all keys before it issues the first id, then
// answers in pieces of about ReplyChunk; a piece ends early where a key must wait. If issuing fails
// within the first piece, the client sees only the error; if it fails later, the client sees the
// error in place of END. left is how many bytes of keys at the end of text remain to be answered.
// After id.ErrWait it is 0 if that is all of them, because the line has only one.
func (s *Session) get(t *turn, text []byte, f form) (left int, err error) {
	t.Add(f.kind, 1)
	if from, to := nextKey(text, 0); to == len(text) && from < to && to-from <= protocol.MaxKey && !isHTTP(text[from:]) {
		return 0, s.getOne(t, text[from:], f)
	}
	k, valid := s.span(text, protocol.ReplyChunk)
	switch {
	case k.n == 0:
		t.blame(errUnknown)
		return 0, nil
	case isHTTP(lastWord(text)):
		t.Add(protocol.Malformed, 1)
		return 0, s.hangUp()
	case !valid || k.end < len(text) && !validKeys(text[k.end:]):
		t.blame(errFormat)
		return 0, nil
	}
	if err := s.permit(text); err != nil {
		t.Add(protocol.Refused, countKeys(text))
		t.refuse(err)
		return 0, nil
	}
	s.form = f
	return s.firstPiece(t, text, k)
}

// permit returns what a protocol.Guard says of the first key that it refuses.
func (s *Session) permit(text []byte) error {
	guard, ok := s.config.Handler.(protocol.Guard)
	if !ok {
		return nil
	}
	for from, to := nextKey(text, 0); from < to; from, to = nextKey(text, to) {
		if err := guard.Permit(text[from:to]); err != nil {
			return err
		}
	}
	return nil
}

// getOne answers a get line with one key, the most common case.
func (s *Session) getOne(t *turn, key []byte, f form) error {
	run, err := t.Issue(s.config.Handler, key)
	if err != nil {
		return t.refuseOrWait(f.kind, err)
	}
	var text id.Text
	text.Start(run)
	out := slices.Grow(t.Out, len(key)+valueRoom)
	out = append(append(append(out, "VALUE "...), key...), " 0 "...)
	out = appendLen(out, &text)
	if f.cas {
		out = text.AppendNumber(append(out, ' '))
	}
	t.Out = append(text.AppendLine(append(out, "\r\n"...)), "END\r\n"...)
	return nil
}

// moreKeys continues with the keys of a get line.
func (s *Session) moreKeys(t *turn, in []byte) (int, error) {
	if len(in) < int(s.left) {
		return 0, nil
	}
	whole := in[:s.left]
	text := trim(whole)
	if from, to := nextKey(text, 0); from == to || whole[len(whole)-1] != '\n' { // see Resume
		t.blame(errFormat)
		return len(in), s.hangUp()
	}
	s.state = line
	left, err := s.laterPiece(t, text)
	return s.done(whole, text, left), err
}

// getAndTouch is get with an expiry in front. The expiry has no effect, but it must be a number.
func (s *Session) getAndTouch(t *turn, text []byte, f form) (left int, err error) {
	exptime, rest, found := cut(text)
	if _, ok := parseInt(exptime, 32); found && !ok {
		t.Add(f.kind, 1)
		t.blame(errExptime)
		return 0, nil
	}
	return s.get(t, rest, f)
}

// firstPiece answers the first piece of a get line. If it must wait, what it has answered is sent:
// kept for the case that the rest fails, it would be memory of the client's that no limit counts.
func (s *Session) firstPiece(t *turn, text []byte, k span) (left int, err error) {
	begin := len(t.Out)
	left, sent, err := s.piece(t, text, k, protocol.ReplyChunk)
	if err == nil || err == id.ErrWait {
		t.Add(protocol.IDs, sent)
		return left, err
	}
	t.Out = t.Out[:begin]
	t.Add(protocol.Refused, sent+countKeys(text[len(text)-left:]))
	t.refuse(err)
	return 0, nil
}

// laterPiece answers any other piece.
func (s *Session) laterPiece(t *turn, text []byte) (left int, err error) {
	k, _ := s.span(text, protocol.ReplyChunk)
	left, sent, err := s.piece(t, text, k, protocol.ReplyChunk)
	t.Add(protocol.IDs, sent)
	if err == nil || err == id.ErrWait {
		return left, err
	}
	t.Add(protocol.Refused, countKeys(text[len(text)-left:]))
	t.refuse(err)
	return 0, nil
}

// piece answers keys until the reply may have reached room bytes; with the last key it also ends
// the reply. k is the span at the start of text. left is how many bytes of keys remain to be
// answered, sent is how many keys were answered.
func (s *Session) piece(t *turn, text []byte, k span, room int) (left, sent int, err error) {
	for ; ; k, _ = s.span(text, room) {
		n, end, err := s.values(t, text[:k.end], k)
		sent, text = sent+n, text[end:]
		if err != nil {
			return len(text), sent, err
		}
		if len(text) == 0 {
			t.Say("END\r\n")
			return 0, sent, nil
		}
		if room -= k.size; room <= 0 {
			return len(text), sent, nil
		}
	}
}
