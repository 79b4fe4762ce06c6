// Package resp speaks the Redis protocol, RESP2 and RESP3, for a server where every GET is a hit.
// It takes bytes in and returns bytes; it has no I/O, no clock and no goroutines.
//
// The guarantee: what a Session answers depends only on the bytes it was fed and on what its
// Handler says, never on how the bytes were cut into Feeds. It never allocates or trusts a length
// that a client claims. Not promised: that it stores anything, and that the Handler gets the same
// value of bulk however the bytes were cut.
//
// docs/PROTOCOL.md lists the reply to every input.
package resp

import (
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// Limits. Redis has most of them, but larger.
const (
	maxCommand     = 1 << 20   // bytes of a command; of the commands of a transaction together
	maxInline      = 64 << 10  // bytes of an inline command, including LF, as in Redis
	maxArgs        = 1024      // arguments of a command, its name included, except for MGET
	maxKeys        = 16384     // keys of an MGET
	maxTransaction = 16384     // commands between MULTI and EXEC
	maxMessage     = 32 << 10  // bytes that PING and ECHO send back
	maxName        = 256       // bytes of a client's name
	firstByte      = byte('*') // of every command that is not inline
)

// A Session answers the bytes of one connection. It holds only what a half-finished command needs,
// because every idle connection has one; unconsumed input stays with the caller, that of an open
// transaction too. Two goroutines may not use it at once.
type Session struct {
	config *protocol.Config
	client *client // nil while there is nothing in it
	// Bytes at the start of the input that have been answered with QUEUED and are not consumed. In
	// EXEC: those that are still to be consumed, EXEC itself included.
	queued uint32
	// In command: bytes of the command that have been searched. In keys: bytes of it still to come.
	scanned  uint32
	args     uint16 // in command: arguments not yet found; in keys: keys not yet answered
	commands uint16 // in a transaction: commands queued; in EXEC: commands to be run
	state    state
	guesses  uint8 // failed attempts to authenticate
	is       mode
}

// A state says what the next byte of the connection is, or with a transaction the next one behind it.
type state uint8

const (
	start   state = iota // the first byte of a command
	command              // a byte of a command; its first arguments have been found
	keys                 // a byte of an MGET whose first keys are answered
	closed               // ignored
)

// A mode is a set of facts about a session.
type mode uint16

const (
	inline     mode = 1 << iota // commands may be inline
	resp3                       // the client has chosen RESP3
	trusted                     // the client has authenticated
	long                        // in command: only an MGET may have as many arguments
	inlineKeys                  // in keys: the command is inline
	multi                       // MULTI was sent
	broken                      // in a transaction: EXEC will refuse it, nothing is queued any more
	executing                   // EXEC was sent, and commands are still to be run
	mute                        // CLIENT REPLY OFF
	skip                        // this command gets no reply: CLIENT REPLY SKIP
	skipNext                    // the next one gets none
	unproven                    // in keys: a state said so that the session was resumed from
	reads                       // READONLY: GET and MGET of names that another server leads are answered here
)

// NewSession makes the session for a new connection. c must have passed Check. allowInline is
// whether commands may also be lines of words, as people type them; a port where another protocol
// is spoken too cannot have that.
func NewSession(c *protocol.Config, allowInline bool) *Session {
	s := &Session{config: c}
	if allowInline {
		s.is = inline
	}
	return s
}

// IsFirst reports whether a connection that begins with this byte speaks RESP, if commands are not
// inline.
func IsFirst(b byte) bool { return b == firstByte }

// A turn is a protocol.Turn with the replies of this grammar.
type turn struct{ protocol.Turn }

// Feed consumes the first n bytes of in, appends its reply to out and returns the result; it keeps
// neither slice. now is the current time, Unix ms. Feed stops early once it has replied ReplyChunk
// bytes. n = 0 with nothing appended means that Feed needs more input: call it with the same bytes
// and more behind them. After any other result the caller may call it again with the rest.
//
// The error is ErrClose, id.ErrWait or protocol.ErrEnough. ErrClose means: send the reply, then close.
// id.ErrWait means: send the reply, and call Feed again with the rest once the source may have an id.
//
// While it waits for more input, it leaves at most 2*maxCommand bytes unconsumed.
func (s *Session) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	var t turn
	t.Now, t.Out, t.Remote = now, out, s.remote()
	if s.is&reads != 0 {
		c := s.about()
		t.Recall(c.kept)
		c.kept = 0
	}
	for n < len(in) && len(t.Out)-len(out) < protocol.ReplyChunk && err == nil && !t.Enough {
		queued, begin, k := s.queued, len(t.Out), 0
		k, err = s.step(&t, in[n:])
		progress := k > 0 || s.queued != queued
		if s.is&(mute|skip|skipNext|reads) != 0 {
			s.silence(&t, begin, progress && err == nil)
			if err != id.ErrWait {
				t.Recall(0)
			}
		}
		if !progress {
			break
		}
		n += k
	}
	if err == id.ErrWait && s.is&reads != 0 {
		s.about().kept = t.Keep()
	}
	t.Count(s.config.Counters)
	return n, t.Out, t.Ended(err)
}

// step consumes or queues one command, or consumes a part of one that can be answered by itself.
func (s *Session) step(t *turn, in []byte) (n int, err error) {
	switch {
	case s.state == closed:
		return len(in), protocol.ErrClose
	case s.is&executing != 0:
		return s.run(t, in)
	case s.state == keys:
		return s.moreKeys(t, in)
	case s.is&multi != 0:
		return s.enqueue(t, in)
	}
	a, n, err := s.next(t, in)
	if n == 0 || err != nil || a.n == 0 {
		return n, err
	}
	return s.execute(t, a, n)
}

// silence takes back the replies that the client does not want. done says that a step ended, but not
// that its command did.
func (s *Session) silence(t *turn, begin int, done bool) {
	if s.is&(mute|skip) != 0 {
		t.Out = t.Out[:begin]
	}
	if done && s.state != keys && s.is&executing == 0 {
		next := s.is&skipNext != 0
		if s.is &^= skip | skipNext; next {
			s.is |= skip
		}
	}
}

// hangUp ends the conversation: everything that follows is ignored.
func (s *Session) hangUp() error {
	s.state = closed
	return protocol.ErrClose
}
