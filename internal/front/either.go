package front

import (
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
	"github.com/katsubushi/katsubushi/v3/protocol/resp"
)

// An either is the session of a connection to the memcached port that has sent nothing. Its first
// byte chooses the protocol, and the session of that one takes over. So neither pays for the other,
// and a connection that stays silent has no session of its own.
type either struct{ config *protocol.Config }

// Freeze implements server.Movable.
func (either) Freeze() (state []byte, ok bool) { return nil, true }

// resumeEither goes on with a session that either has chosen.
func resumeEither(c *protocol.Config, state []byte) (conversation, error) {
	if resp.IsFrozen(state) {
		return resumed(resp.Resume(c, false, state))
	}
	return resumed(memcache.Resume(c, state))
}

func (e either) Feed(_ int64, in, out []byte) (int, []byte, error) {
	if len(in) == 0 {
		return 0, out, nil
	}
	if resp.IsFirst(in[0]) {
		return 0, out, &server.Successor{Session: resp.NewSession(e.config, false)}
	}
	return 0, out, &server.Successor{Session: memcache.NewSession(e.config)}
}
