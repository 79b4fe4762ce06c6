package server

import "time"

// Limits of one connection, in bytes.
const (
	// ReplyFull is the reply size at which the engine stops asking the session and sends. A single
	// Feed may exceed it.
	ReplyFull = 64 << 10
	// KeepOutput is the buffer size above which a buffer is freed instead of kept for reuse.
	KeepOutput = 2 * ReplyFull
	// MaxInput limits what a session may leave unconsumed. Sessions stay below it by themselves;
	// this limit keeps a bug in one from using up the memory.
	MaxInput = 4 << 20
	// LingerBytes is how much a client may still send on a connection that is being closed before
	// the connection is reset.
	LingerBytes = 8 << 20
)

// LingerTime is how long the engine keeps reading, and discarding, input after the last reply: at
// least this long, at most twice as long. Closing a socket with unread input resets the connection,
// and on many systems a reset destroys the last reply before the client has read it.
const LingerTime = time.Second

// Lingers returns Linger or its default.
func (c *Config) Lingers() time.Duration {
	if c.Linger > 0 {
		return c.Linger
	}
	return LingerTime
}

// DrainQuiet is how long the engine waits on a draining socket for bytes still on their way.
const DrainQuiet = 10 * time.Millisecond

// A Successor is an error of Feed that closes nothing: the connection goes on with another session,
// which gets the input that Feed left. So a port can look at the first bytes of a connection and
// then choose the session, and this costs the chosen one nothing.
type Successor struct{ Session Session }

func (*Successor) Error() string { return "server: another session takes over" }

// ParkPause is how long a session that waits is at most left alone.
const ParkPause = 50 * time.Millisecond

// ParkPauses returns ParkPause or its default.
func (c *Config) ParkPauses() time.Duration {
	if c.ParkPause > 0 {
		return c.ParkPause
	}
	return ParkPause
}

// Waits reports whether an error of Feed asks the engine to park the connection: what the client
// asked for is not there at this moment, but soon. The reply so far is sent. Then little is read
// from the connection until its session has answered. How long that may take is not the engine's
// decision: a session that has waited for too long answers with an error.
func Waits(err error) bool {
	w, ok := err.(interface{ Wait() bool })
	return ok && w.Wait()
}

// stop returns what Converse does after an error of Feed. One that says Enough closes nothing: it ends
// the turn of a connection that asked for what took long, although the reply is short.
//
// It is apart because each goroutine of package std would have a larger stack for it otherwise.
//
//go:noinline
func stop(n int, out []byte, err error) (int, []byte, bool, error) {
	if e, ok := err.(interface{ Enough() bool }); ok && e.Enough() {
		return n, out, true, nil
	}
	return n, out, false, err
}

// Converse feeds in to s until s needs more input, must wait, wants to close the connection, or has
// replied or done enough for one write. In the last case full is true: call s again once the reply is sent,
// even if no input is left. Converse consumes n bytes of in. It replaces s by a Successor.
func Converse(s *Session, now int64, in, out []byte) (n int, reply []byte, full bool, err error) {
	for {
		before := len(out)
		k, reply, err := (*s).Feed(now, in[n:], out)
		n, out = n+k, reply
		switch {
		case err != nil:
			if next, ok := err.(*Successor); ok {
				*s = next.Session
				continue
			}
			return stop(n, out, err)
		case k == 0 && len(out) == before:
			return n, out, false, nil
		case len(out) >= ReplyFull:
			return n, out, true, nil
		}
	}
}
