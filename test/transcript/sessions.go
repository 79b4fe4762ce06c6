package transcript

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A Resumed session may have a client that has logged in.
type Resumed interface {
	Session
	LoggedIn() bool
}

// FuzzResume resumes from anything, with any input behind it. No state may let a client in who must log
// in first, and there must be a way out of each: nothing panics, and every Feed makes progress. Of each second seed
// resume gets an Auth that lets no client in.
func FuzzResume(f *testing.F, most int, states, inputs []string,
	resume func(auth Auth, state []byte, seed uint64) (Resumed, *protocol.Config, error)) {
	for _, state := range states {
		for _, in := range inputs {
			f.Add(state, []byte(in), uint64(len(in)))
		}
	}
	f.Fuzz(func(t *testing.T, state string, in []byte, seed uint64) {
		var auth Auth
		if seed%2 == 1 {
			auth = Logins(nil, func(user, password []byte) bool { return false })
		}
		s, c, err := resume(auth, []byte(state), seed)
		if err != nil {
			return
		}
		in = in[:min(len(in), 5000)]
		let := s.LoggedIn()
		Answer(t, s, most, SplitAtRandom(in, seed)...)
		var n protocol.Counts
		if c.Counters.AddTo(&n); auth != nil && !let && n[protocol.IDs] > 0 {
			t.Fatalf("%q issued %d ids to somebody who has not logged in", state, n[protocol.IDs])
		}
	})
}

// An Auth is that of a protocol.Config.
type Auth = func(user, password []byte) (*protocol.Config, error)

// Logins makes an Auth that leaves a session's Config as it is after a login.
func Logins(c *protocol.Config, allows func(user, password []byte) bool) Auth {
	return func(user, password []byte) (*protocol.Config, error) {
		if allows(user, password) {
			return c, nil
		}
		return nil, nil
	}
}

// A Guarded handler refuses keys that begin with x.
type Guarded struct{ protocol.Handler }

// Permit implements protocol.Guard.
func (Guarded) Permit(key []byte) error {
	if key[0] == 'x' {
		return id.NotPermitted(key)
	}
	return nil
}
