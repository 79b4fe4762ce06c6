package server

import "time"

// Limits of one connection, in bytes.
const (
	// ReplyFull is the reply at which a session is interrupted and the reply sent. A single Feed may overshoot it.
	ReplyFull = 64 << 10
	// KeepOutput is the size of a buffer beyond which it is given up, not kept for later.
	KeepOutput = 2 * ReplyFull
	// MaxInput is what a session may leave unconsumed. Sessions bound themselves below it; it is here so that a mistake in one
	// cannot eat the memory.
	MaxInput = 4 << 20
	// LingerBytes is how much a connection that is being closed may still send before it is reset.
	LingerBytes = 8 << 20
)

// LingerTime is how long the bytes of a connection that was answered for the last time are still
// taken, and thrown away: at least this long, and at most twice. Closing a socket with unread input
// resets the connection, and on many systems a reset destroys the last reply before the client has
// read it.
const LingerTime = time.Second

// Lingers is Linger, or its default.
func (c *Config) Lingers() time.Duration {
	if c.Linger > 0 {
		return c.Linger
	}
	return LingerTime
}

// DrainQuiet is how long a socket that is being drained is listened to for bytes that are under way.
const DrainQuiet = 10 * time.Millisecond

// Converse feeds in to s until s needs more input, wants the connection closed, or has said enough for one write; full tells the
// last case apart: s must be asked again when the reply is sent, even if no input is left. n bytes of in are consumed.
func Converse(s Session, now int64, in, out []byte) (n int, reply []byte, full bool, err error) {
	for {
		before := len(out)
		k, reply, err := s.Feed(now, in[n:], out)
		n, out = n+k, reply
		switch {
		case err != nil || k == 0 && len(out) == before:
			return n, out, false, err
		case len(out) >= ReplyFull:
			return n, out, true, nil
		}
	}
}
