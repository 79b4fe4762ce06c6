package memcache

import "github.com/katsubushi/katsubushi/v3/protocol"

// The sentences of the text grammar, line ends included. Other grammars borrow their reasons from
// here.
const (
	errUnknown    = "ERROR\r\n"
	errFormat     = "CLIENT_ERROR bad command line format\r\n"
	errTooLong    = "CLIENT_ERROR line too long\r\n"
	errExptime    = "CLIENT_ERROR invalid exptime argument\r\n"
	errDelta      = "CLIENT_ERROR invalid numeric delta argument\r\n"
	errDelete     = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"
	errStatsUsage = "CLIENT_ERROR usage: stats detail on|off|dump\r\n"
	errChunk      = "CLIENT_ERROR bad data chunk\r\n"
	errTooLarge   = "SERVER_ERROR object too large for cache\r\n"
	errReadOnly   = "SERVER_ERROR " + readOnly + "\r\n"
	errShutdown   = "ERROR: shutdown not enabled\r\n"

	readOnly = "read-only: ids are not stored"
)

// blame answers a command that the client got wrong.
func (t *turn) blame(s string) {
	t.Add(protocol.Malformed, 1)
	t.Say(s)
}

// refuse is SERVER_ERROR with a reason that the program behind gave.
func (t *turn) refuse(reason error) {
	t.Say("SERVER_ERROR ")
	t.Out = protocol.AppendLine(t.Out, reason.Error(), protocol.MaxReason)
	t.Say("\r\n")
}

// blameUnless is blame, or silence where the client asked for it.
func (t *turn) blameUnless(quiet bool, s string) {
	if quiet {
		t.Add(protocol.Malformed, 1)
		return
	}
	t.blame(s)
}
