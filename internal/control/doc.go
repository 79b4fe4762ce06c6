// Package control is how a command finds a daemon of this host and asks it for something.
//
// A daemon listens on an abstract unix socket, which needs no file and lives in a network namespace.
// Its name says the number of its process. Any local user can take a name, so names prove nothing:
//
//   - If its name is taken, a daemon listens under one that has a random tail and cannot be guessed.
//   - A command looks through all names that could be the daemon's, and believes the one at whose
//     other end the kernel shows that process.
//   - The daemon asks the kernel who has connected before it reads anything. Any user but root and
//     its own gets the reason and is disconnected at once.
//
// A connection carries one request and one answer, each a line. A daemon refuses a word that it does
// not know with a text that makes ErrUnknown. Fields after the word are the word's own.
//
//	upgrade 1m0s\n  ──▶
//	                ◀──  done process 12 of version 3.1.0 serves, ..\n
//	                ◀──  refused an upgrade is under way already\n
package control

import (
	"errors"
	"regexp"
)

// A Commands says what a daemon does when it is asked, by the first word of the request. A function
// gets the rest of the line, and calls reply once, before it returns. Several may run at a time.
type Commands map[string]func(argument string, reply func(text string, err error))

// A Daemon is a process that listens on a control socket.
type Daemon struct {
	PID int
	UID int // the user that it runs as
}

// A Refusal is the daemon's reason not to do what it was asked for. Its text is the daemon's.
type Refusal struct{ Text string }

func (r *Refusal) Error() string { return r.Text }

// Is makes a Refusal an ErrUnknown if the daemon does not know the word.
func (r *Refusal) Is(err error) bool { return err == ErrUnknown && unknown.MatchString(r.Text) }

// unknown matches what daemons say of a request that they do not know.
var unknown = regexp.MustCompile(`^".*" is not understood: `)

var (
	// ErrUnsupported means that daemons are found on Linux only. Never retry.
	ErrUnsupported = errors.New("control: only on Linux can a running daemon be asked")
	// ErrUnknown means that the daemon is of a version that does not know what it was asked for.
	ErrUnknown = errors.New("control: the daemon does not know that request")
)
