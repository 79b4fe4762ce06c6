// Package memcache speaks memcached's protocols, text, meta and binary, over TCP and UDP, for a
// server whose every get is a hit: bytes in, bytes out, no I/O, no clock, no goroutine.
//
// The guarantee: what a Session answers depends only on the bytes it was fed and on what its
// Handler says, never on how the bytes were cut into Feeds; and no length that a client claims is
// ever allocated or believed. What is not promised: that it stores anything, and that the Handler
// is told the same of bulk however the bytes were cut.
//
// docs/PROTOCOL.md says what every input is answered.
package memcache

import "github.com/katsubushi/katsubushi/v3/protocol"

// Limits, which are memcached's.
const (
	MaxLine    = 2048    // bytes of a command line, LF included, other than a get's
	MaxGetLine = 1 << 20 // bytes of a get, gets, gat or gats line, LF included
	MaxBody    = 1 << 20 // bytes of a value that a storage command may send; it is swallowed, never stored
)

// A Session answers the bytes of one connection. It holds only what a half-finished command needs,
// since it counts per idle connection; unconsumed input stays with the caller. It may not be used
// by two goroutines at once.
type Session struct {
	config  *protocol.Config
	left    int64  // in keys: bytes of the line to come, LF included; in body, credentials: of the value, without its terminator
	scanned uint32 // in line, handshake: bytes that were seen and hold no LF
	state   state
	answer  answer // in body: what to say when it has ended
	form    form   // in keys
	long    bool   // in line: it is a get's, and so may exceed MaxLine
	binary  bool   // the grammar
	trusted bool   // the client has authenticated
	begun   bool   // binary: a SASL_AUTH went well, or is to be continued: SASL_STEP may follow
	guesses uint8  // failed attempts to authenticate
}

// A state says what the next byte of the connection is.
type state uint8

const (
	start       state = iota // the first: it chooses the grammar
	line                     // text: the first of a command line
	keys                     // text: one of a get line whose first keys are answered
	body                     // one of a data block, or of a frame's body, that is swallowed
	handshake                // text: the first of a line of a client that has not authenticated
	credentials              // text: the first of the data block with user and password
	frame                    // binary: the first of a request
	closed                   // of no interest
)

// NewSession makes the session of a new connection. c must have passed Check.
func NewSession(c *protocol.Config) *Session { return &Session{config: c} }

// A turn is a protocol.Turn with the sentences of these grammars.
type turn struct{ protocol.Turn }

// Feed consumes the first n bytes of in, appends its reply to out and returns the result; it keeps
// neither slice. now is the present, Unix ms. It stops early when it has replied ReplyChunk bytes.
// n = 0 with nothing appended means that more input is needed: Feed wants the same bytes again with
// more behind them. After any other result it may be called again with the rest. ErrClose, the only
// error, means: send the reply, then close.
//
// What it leaves unconsumed while it waits is at most MaxGetLine bytes.
func (s *Session) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	var t turn
	t.Now, t.Out = now, out
	for n < len(in) && len(t.Out)-len(out) < protocol.ReplyChunk && err == nil {
		var k int
		if s.state == line { // most of the time
			k, err = s.line(&t, in[n:])
		} else {
			k, err = s.step(&t, in[n:])
		}
		if k == 0 {
			break
		}
		n += k
	}
	t.Count(s.config.Counters)
	return n, t.Out, err
}

// step consumes one command, or a part of one that can be answered without the rest. 0 means that
// more input is needed.
func (s *Session) step(t *turn, in []byte) (int, error) {
	switch s.state {
	case start:
		s.binary = in[0] == magicRequest
		s.ready()
		return s.step(t, in)
	case line:
		return s.line(t, in)
	case keys:
		return s.moreKeys(t, in)
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

// hangUp ends the conversation: whatever follows is ignored.
func (s *Session) hangUp() error {
	s.state = closed
	return protocol.ErrClose
}
