package protocol

import (
	"bytes"
	"slices"
)

// A form is how the VALUE lines of a get look, and what kind it is counted as.
type form struct {
	kind Counter
	cas  bool // a fifth field: the id once more
}

// get answers the keys of a get line. They are checked before the first id is issued, then answered in pieces of about ReplyChunk. What
// a piece holds depends on the line alone, and so does, when issuing fails, what the client sees: within the first piece nothing but
// the error, later the error in place of END.
func (s *Session) get(t *turn, text []byte, f form) (left int, err error) {
	t.add(f.kind, 1)
	n, ok := countKeys(text)
	switch {
	case n == 0:
		t.blame(errUnknown)
		return 0, nil
	case isHTTP(text):
		t.add(Malformed, 1)
		return 0, s.hangUp()
	case !ok:
		t.blame(errFormat)
		return 0, nil
	}
	begin := len(t.out)
	left, sent, err := s.piece(t, text, f)
	if err != nil {
		t.out = t.out[:begin]
		t.add(Refused, n)
		t.refuse(err)
		return 0, nil
	}
	t.add(IDs, sent)
	s.form = f
	return left, nil
}

// moreKeys goes on with a get line.
func (s *Session) moreKeys(t *turn, in []byte) (int, error) {
	if int64(len(in)) < s.left {
		return 0, nil
	}
	whole := in[:s.left]
	text := trim(whole)
	s.state = line
	left, sent, err := s.piece(t, text, s.form)
	t.add(IDs, sent)
	if err != nil {
		n, _ := countKeys(text)
		t.add(Refused, n-sent)
		t.refuse(err)
		left = 0
	}
	return s.done(whole, text, left), nil
}

// getAndTouch is get with an expiry in front, which means nothing here but must be a number.
func (s *Session) getAndTouch(t *turn, text []byte, f form) (left int, err error) {
	exptime, rest, found := cut(text)
	if _, ok := parseInt(exptime, 32); found && !ok {
		t.add(f.kind, 1)
		t.blame(errExptime)
		return 0, nil
	}
	return s.get(t, rest, f)
}

// piece answers keys until the reply may have reached ReplyChunk, and ends the line with the last. left is how many bytes of keys are
// still to be answered, sent how many keys were.
func (s *Session) piece(t *turn, text []byte, f form) (left, sent int, err error) {
	for room := ReplyChunk; len(text) > 0 && room > 0; {
		n, end, size, source := s.span(text, room)
		t.out = slices.Grow(t.out, size)
		got, err := s.values(t, text[:end], source, n, f)
		sent += got
		if err != nil {
			return len(text), sent, err
		}
		text, room = text[end:], room-size
	}
	if len(text) == 0 {
		t.say("END\r\n")
	}
	return len(text), sent, nil
}

// valueRoom is the most that a key's answer takes besides the key: its frame, twice 20 digits and the END that may follow.
const valueRoom = len("VALUE  0 20 \r\n\r\nEND\r\n") + 40

// span measures the neighbouring keys of one source at the head of text that are answered in at most about room bytes.
func (s *Session) span(text []byte, room int) (n, end, size, source int) {
	for size < room {
		key, next := nextKey(text, end)
		if len(key) == 0 {
			break
		}
		from := s.config.Handler.Source(key)
		if n > 0 && from != source {
			break
		}
		source, end = from, next
		size += len(key) + valueRoom
		n++
	}
	return n, end, size, source
}

// values issues n ids of a source and answers the n keys of text with them; sent says how many, n unless issuing failed.
func (s *Session) values(t *turn, text []byte, source, n int, f form) (sent int, err error) {
	var d decimal
	end := 0
	for sent < n {
		first, stride, got, err := s.config.Handler.Mint(t.now, source, n-sent)
		if err != nil {
			return sent, err
		}
		d.set(first)
		for i := range got {
			if i > 0 {
				d.add(stride)
			}
			var key []byte
			key, end = nextKey(text, end)
			t.out = appendValue(t.out, key, d.text(), f)
		}
		sent += got
	}
	return sent, nil
}

func appendValue(out, key, id []byte, f form) []byte {
	out = append(out, "VALUE "...)
	out = append(out, key...)
	out = append(out, " 0 "...)
	if len(id) >= 10 {
		out = append(out, byte('0'+len(id)/10))
	}
	out = append(out, byte('0'+len(id)%10))
	if f.cas {
		out = append(out, ' ')
		out = append(out, id...)
	}
	out = append(out, "\r\n"...)
	out = append(out, id...)
	return append(out, "\r\n"...)
}

// nextKey finds the key at or after from, and where it ends. There is none when it is empty.
func nextKey(text []byte, from int) (key []byte, end int) {
	for from < len(text) && text[from] == ' ' {
		from++
	}
	end = from
	if i := bytes.IndexByte(text[from:], ' '); i >= 0 {
		end += i
	} else {
		end = len(text)
	}
	return text[from:end], end
}

// countKeys counts the keys and tells whether all of them are short enough.
func countKeys(text []byte) (n int, ok bool) {
	ok = true
	for end := 0; ; n++ {
		var key []byte
		key, end = nextKey(text, end)
		if len(key) == 0 {
			return n, ok
		}
		ok = ok && len(key) <= MaxKey
	}
}
