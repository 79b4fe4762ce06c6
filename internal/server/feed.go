package server

import "time"

// Limits of one connection, in bytes.
const (
	// replyFull is the reply at which a session is interrupted and the reply sent. A single Feed may overshoot it.
	replyFull = 64 << 10
	// maxInput is what a session may leave unconsumed. Sessions bound themselves below it; it is here so that a mistake in one
	// cannot eat the memory.
	maxInput = 4 << 20
	// lingerBytes is how much a connection that is being closed may still send before it is reset.
	lingerBytes = 8 << 20
)

// lingerTime is how long the bytes of a connection that was answered for the last time are still
// taken, and thrown away: at least this long, and at most twice. Closing a socket with unread input
// resets the connection, and on many systems a reset destroys the last reply before the client has
// read it.
const lingerTime = time.Second

// lingers is lingerTime, or what a test has instead of it.
func (c *Config) lingers() time.Duration {
	if c.lingerTime > 0 {
		return c.lingerTime
	}
	return lingerTime
}

// converse feeds in to s until s needs more input, wants the connection closed, or has said enough for one write; full tells the
// last case apart: s must be asked again when the reply is sent, even if no input is left. n bytes of in are consumed.
func converse(s Session, now int64, in, out []byte) (n int, reply []byte, full bool, err error) {
	for {
		before := len(out)
		k, reply, err := s.Feed(now, in[n:], out)
		n, out = n+k, reply
		switch {
		case err != nil || k == 0 && len(out) == before:
			return n, out, false, err
		case len(out) >= replyFull:
			return n, out, true, nil
		}
	}
}
