package memcache

import (
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/visible"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// The error messages of the text grammar, line ends included. Other grammars take their reasons
// from here.
const (
	errUnknown    = "ERROR\r\n"
	errFormat     = "CLIENT_ERROR bad command line format\r\n"
	errTooLong    = "CLIENT_ERROR line too long\r\n"
	errExptime    = "CLIENT_ERROR invalid exptime argument\r\n"
	errNonNumeric = "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"
	errNoNumbers  = "CLIENT_ERROR these ids are not numbers: use get\r\n"
	errDelta      = "CLIENT_ERROR invalid numeric delta argument\r\n"
	errDelete     = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
	errStatsUsage = "CLIENT_ERROR usage: stats detail on|off|dump\r\n"
	errChunk      = "CLIENT_ERROR bad data chunk\r\n"
	errTooLarge   = "SERVER_ERROR object too large for cache\r\n"
	errReadOnly   = "SERVER_ERROR " + readOnly + "\r\n"
	errShutdown   = "ERROR: shutdown not enabled\r\n"

	readOnly = "read-only: ids are not stored"
)

// blame answers a command that is wrong, by the client's fault.
func (t *turn) blame(s string) {
	t.Add(protocol.Malformed, 1)
	t.Say(s)
}

// refuse replies SERVER_ERROR with a reason given by the program behind, or CLIENT_ERROR if the key
// was wrong or is not permitted: at SERVER_ERROR some clients ask another server.
func (t *turn) refuse(reason error) {
	if protocol.IsClients(reason) {
		t.Say("CLIENT_ERROR ")
	} else {
		t.Say("SERVER_ERROR ")
	}
	t.Out = visible.AppendLine(t.Out, reason.Error(), protocol.MaxReason)
	t.Say("\r\n")
}

// refuseOrWait answers a command that got an error instead of ids, with refuse. If the error is
// id.ErrWait, it says nothing, takes back that the command was counted, and returns the error.
func (t *turn) refuseOrWait(kind protocol.Counter, err error) error {
	if err == id.ErrWait {
		t.Add(kind, -1)
		return err
	}
	t.refuse(err)
	return nil
}

// blameUnless is blame, but silent if the client asked for that.
func (t *turn) blameUnless(quiet bool, s string) {
	if quiet {
		t.Add(protocol.Malformed, 1)
		return
	}
	t.blame(s)
}
