// Package memcache speaks memcached's protocols (text, meta and binary, over TCP and UDP) for a
// server where every get is a hit. It takes bytes in and returns bytes; it has no I/O, no clock and
// no goroutines.
//
// The guarantee: what a Session answers depends only on the bytes it was fed and on what its
// Handler says, never on how the bytes were cut into Feeds. It never allocates or trusts a length
// that a client claims. Not promised: that it stores anything, and that the Handler gets the same
// value of bulk however the bytes were cut.
//
// docs/PROTOCOL.md lists the reply to every input.
package memcache

import (
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// Limits, the same as memcached's.
const (
	maxLine    = 2048    // bytes of a command line including LF, except for the gets below
	maxGetLine = 1 << 20 // bytes of a get, gets, gat, gats or ids line, including LF
	MaxBody    = 1 << 20 // bytes of a value that a storage command may send; it is discarded, never stored
)

// A Session answers the bytes of one connection. It holds only what a half-finished command needs,
// because every idle connection has one; unconsumed input stays with the caller. Two goroutines may
// not use it at once.
type Session struct {
	config *protocol.Config
	// In keys: bytes of the line to come, LF included; in runs: ids that are still to be issued; in
	// body and credentials: bytes of the value, without its terminator.
	left uint32
	// In line and handshake: bytes already searched that hold no LF; at least protocol.Kept: the
	// moment of the request that waits.
	scanned uint32
	state   state
	answer  answer // in body: what to reply at its end
	form    form   // in keys
	binary  bool   // the connection uses the binary grammar
	trusted bool   // the client has authenticated
	begun   bool   // binary: a SASL_AUTH succeeded or is to be continued, so SASL_STEP may follow
	guesses uint8  // failed attempts to authenticate
}

// A state says what the next byte of the connection is.
type state uint8

const (
	start       state = iota // the first byte: it chooses the grammar
	line                     // text: the first byte of a command line
	lineOverUDP              // the same, of one that came over UDP
	longLine                 // text: the same, but it is a get or ids line, so it may exceed maxLine
	keys                     // text: a byte of a get line whose first keys are answered
	runs                     // text: the second word of an ids line that is answered in part
	body                     // a byte of a data block, or of a frame's body, to be discarded
	handshake                // text: the first byte of a line from a client that has not authenticated
	credentials              // text: the first byte of the data block with user and password
	frame                    // binary: the first byte of a request
	closed                   // ignored
)

// NewSession makes the session for a new connection. c must have passed Check.
func NewSession(c *protocol.Config) *Session { return &Session{config: c} }

// A turn is a protocol.Turn with the error messages of these grammars.
type turn struct{ protocol.Turn }

// Feed consumes the first n bytes of in, appends its reply to out and returns the result; it keeps
// neither slice. now is the current time, Unix ms. Feed stops early once it has replied ReplyChunk
// bytes. n = 0 with nothing appended means that Feed needs more input: call it with the same bytes
// and more behind them. After any other result the caller may call it again with the rest.
//
// The error is ErrClose, id.ErrWait or protocol.ErrEnough. ErrClose means: send the reply, then close.
// id.ErrWait means: send the reply, and call Feed again later with the rest, which it has not answered;
// n may be 0.
//
// While it waits for more input, it leaves at most maxGetLine bytes unconsumed.
func (s *Session) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	var t turn
	t.Now, t.Out = now, out
	if s.scanned >= protocol.Kept && len(in) > 0 {
		n, err = s.resume(&t, in)
	}
	for n < len(in) && len(t.Out)-len(out) < protocol.ReplyChunk && err == nil && !t.Enough {
		var k int
		if s.state == line { // the most common case
			k, err = s.line(&t, in[n:])
		} else {
			k, err = s.step(&t, in[n:])
		}
		if k == 0 {
			break
		}
		n += k
	}
	if err == id.ErrWait {
		s.scanned = t.Keep()
	}
	t.Count(s.config.Counters)
	return n, t.Out, t.Ended(err)
}

// resume goes on with the request that waited at a moment.
func (s *Session) resume(t *turn, in []byte) (int, error) {
	t.Recall(s.scanned)
	s.scanned = 0
	n, err := s.step(t, in)
	if err != id.ErrWait {
		t.Recall(0)
	}
	return n, err
}

// step consumes one command, or a part of one that can be answered by itself. It returns 0 if it
// needs more input.
func (s *Session) step(t *turn, in []byte) (int, error) {
	switch s.state {
	case start:
		s.binary = in[0] == magicRequest
		s.ready()
		return s.step(t, in)
	case lineOverUDP:
		t.Remote = protocol.Drop
		s.state = line
		return s.line(t, in)
	case line, longLine:
		return s.line(t, in)
	case keys:
		return s.moreKeys(t, in)
	case runs:
		return s.moreRuns(t, in)
	case body:
		return s.body(t, in), nil
	case handshake:
		return s.handshake(t, in)
	case credentials:
		return s.credentials(t, in)
	case frame:
		return s.frame(t, in)
	default:
		return len(in), protocol.ErrClose
	}
}

// ready makes the next byte the first of a command.
func (s *Session) ready() {
	switch {
	case s.binary:
		s.state = frame
	case s.locked():
		s.state = handshake
	default:
		s.state = line
	}
}

// hangUp ends the conversation: everything that follows is ignored.
func (s *Session) hangUp() error {
	s.state = closed
	return protocol.ErrClose
}
