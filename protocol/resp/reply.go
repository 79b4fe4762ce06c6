package resp

import (
	"slices"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// The errors, the word in front included. Those that Redis has too are Redis's.
const (
	errNoAuth      = "NOAUTH Authentication required."
	errSyntax      = "ERR syntax error"
	errNotInteger  = "ERR value is not an integer or out of range"
	errReadOnly    = "ERR read-only: ids are not stored"
	errNoGenerator = "ERR no such generator"
	errNoRange     = "ERR only a sequence has ranges: the increment must be 1"
	errNotNumber   = "WRONGTYPE Operation against a key holding the wrong kind of value"
	errKeyTooLong  = "ERR key is longer than 250 bytes"
	errMessage     = "ERR message is longer than 32768 bytes"
	errReply       = "ERR reply is longer than 65536 bytes"
	errAborted     = "EXECABORT Transaction discarded because of previous errors."
	errAbortedBy   = "EXECABORT Transaction discarded because of: "
	errTooMuch     = "ERR transaction is too long"
	errCrossSlot   = "CROSSSLOT Keys in request don't hash to the same slot"
	errNotServed   = "CLUSTERDOWN Hash slot not served"

	// Redis's, and then the key.
	errNoPerm = "NOPERM this user has no permissions to access one of the keys used as arguments: "
)

// fail replies with an error. detail is what the client has sent.
func (t *turn) fail(what, detail string) {
	t.Say("-")
	t.Say(what)
	t.echo([]byte(detail))
	t.Say("\r\n")
}

// blame answers a command that is wrong, by the client's fault.
func (t *turn) blame(s string) {
	t.Add(protocol.Malformed, 1)
	t.fail(s, "")
}

// refuse replies with a reason given by the program behind. ERR means that the key was wrong, or
// that the reason will stay: a daemon gets FINAL instead, as it must know which. Clients repeat a request after
// TRYAGAIN, and after LOADING, which says that there is no worker id.
func (s *Session) refuse(t *turn, reason error) {
	if at, ok := reason.(id.Elsewhere); ok {
		t.redirect(at)
		return
	}
	word := "-TRYAGAIN "
	if name, denied := reason.(id.NotPermitted); denied {
		t.fail(errNoPerm, string(name))
		return
	} else if _, unknown := reason.(id.UnknownName); unknown {
		word = "-ERR "
	} else if final, ok := reason.(interface{ Final() bool }); ok && final.Final() {
		if word = "-ERR "; s.name() == protocol.DaemonName {
			word = "-FINAL "
		}
	} else if early, ok := reason.(interface{ NotYet() bool }); ok && early.NotYet() {
		word = "-LOADING "
	}
	t.Say(word)
	t.Out = visible.AppendLine(t.Out, reason.Error(), protocol.MaxReason)
	t.Say("\r\n")
}

// redirect sends the client to the server that issues a name's ids.
func (t *turn) redirect(at id.Elsewhere) {
	if at.Address == "" {
		t.fail(errNotServed, "")
		return
	}
	t.Out = appendInt(append(t.Out, "-MOVED "...), int64(at.Slot))
	t.Say(" ")
	t.Say(at.Address)
	t.Say("\r\n")
}

// ok replies that it is done.
func (t *turn) ok() { t.Say("+OK\r\n") }

func appendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// header appends a type with a number: a length, or an integer.
func (t *turn) header(kind byte, n int64) {
	t.Out = append(appendInt(append(t.Out, kind), n), "\r\n"...)
}

func (t *turn) integer(n int64) { t.header(':', n) }
func (t *turn) array(n int)     { t.header('*', int64(n)) }

// pairs begins a map of n pairs. RESP2 has none and takes an array.
func (s *Session) pairs(t *turn, n int) {
	if s.is&resp3 != 0 {
		t.header('%', int64(n))
	} else {
		t.array(2 * n)
	}
}

// set begins a set.
func (s *Session) set(t *turn, n int) {
	if s.is&resp3 != 0 {
		t.header('~', int64(n))
	} else {
		t.array(n)
	}
}

// null says that there is nothing.
func (s *Session) null(t *turn) {
	if s.is&resp3 != 0 {
		t.Say("_\r\n")
	} else {
		t.Say("$-1\r\n")
	}
}

func (t *turn) bulk(b []byte) {
	t.header('$', int64(len(b)))
	t.Out = append(append(slices.Grow(t.Out, len(b)+2), b...), "\r\n"...)
}

func (t *turn) text(s string) {
	t.header('$', int64(len(s)))
	t.Say(s)
	t.Say("\r\n")
}

// verbatim is text for people.
func (s *Session) verbatim(t *turn, text string) {
	if s.is&resp3 == 0 {
		t.text(text)
		return
	}
	t.header('=', int64(len(text)+len("txt:")))
	t.Say("txt:")
	t.Say(text)
	t.Say("\r\n")
}
