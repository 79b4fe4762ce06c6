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
// answers in pieces of about ReplyChunk. The line alone decides what a piece holds. If issuing
// fails within the first piece, the client sees only the error; if it fails later, the client sees
// the error in place of END.
func (s *Session) get(t *turn, text []byte, f form) (left int, err error) {
	t.Add(f.kind, 1)
	if from, to := nextKey(text, 0); to == len(text) && from < to && to-from <= protocol.MaxKey && !isHTTP(text[from:]) {
		s.getOne(t, text[from:], f)
		return 0, nil
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
	begin := len(t.Out)
	left, sent, err := s.piece(t, text, k, f)
	if err != nil {
		t.Out = t.Out[:begin]
		t.Add(protocol.Refused, countKeys(text))
		t.refuse(err)
		return 0, nil
	}
	t.Add(protocol.IDs, sent)
	s.form = f
	return left, nil
}

// getOne answers a get line with one key, the most common case.
func (s *Session) getOne(t *turn, key []byte, f form) {
	run, err := t.Issue(s.config.Handler, key)
	if err != nil {
		t.refuse(err)
		return
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
}

// moreKeys continues with the keys of a get line.
func (s *Session) moreKeys(t *turn, in []byte) (int, error) {
	if int64(len(in)) < s.left {
		return 0, nil
	}
	whole := in[:s.left]
	text := trim(whole)
	s.state = line
	k, _ := s.span(text, protocol.ReplyChunk)
	left, sent, err := s.piece(t, text, k, s.form)
	t.Add(protocol.IDs, sent)
	if err != nil {
		t.Add(protocol.Refused, countKeys(text)-sent)
		t.refuse(err)
		left = 0
	}
	return s.done(whole, text, left), nil
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

// piece answers keys until the reply may have reached ReplyChunk; with the last key it also ends
// the reply. k is the span at the start of text. left is how many bytes of keys remain to be
// answered, sent is how many keys were answered.
func (s *Session) piece(t *turn, text []byte, k span, f form) (left, sent int, err error) {
	for room := protocol.ReplyChunk; ; k, _ = s.span(text, room) {
		n, err := s.values(t, text[:k.end], k, f)
		sent += n
		if err != nil {
			return len(text), sent, err
		}
		text, room = text[k.end:], room-k.size
		if len(text) == 0 {
			t.Say("END\r\n")
			return 0, sent, nil
		}
		if room <= 0 {
			return len(text), sent, nil
		}
	}
}
