package front

import (
	"strings"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// A guard is the Handler of a session whose user may not have all ids. Sources of permitted keys are the
// loop's own, so that whatever they can do beside Mint stays.
type guard struct {
	protocol.Handler               // the loop's
	rights           *users.Rights // what the user may do until the end of the Feed
}

var (
	_ protocol.Guard  = (*guard)(nil)
	_ protocol.Sifter = (*guard)(nil)
)

// Source implements protocol.Handler.
func (g *guard) Source(key []byte) id.Source {
	if g.rights.Permit(key, users.Get) {
		return g.Handler.Source(key)
	}
	return deny(key)
}

// Named implements protocol.Handler. Whether a key is declared is not told to those who may not increment
// it.
func (g *guard) Named(key []byte) id.Source {
	if g.rights.Permit(key, users.Incr) {
		return g.Handler.Named(key)
	}
	return deny(key)
}

// Stats implements protocol.Handler. Figures that tell ids of a name are for those who may get them.
func (g *guard) Stats(group []byte, emit func(name, value string)) bool {
	return g.Handler.Stats(group, func(name, value string) {
		at := strings.LastIndexByte(name, ':')
		if at >= 0 && issuer.TellsIDs(name[at+1:]) && !g.rights.Permit([]byte(name[:at]), users.Get) {
			return
		}
		emit(name, value)
	})
}

// Permit implements protocol.Guard.
func (g *guard) Permit(key []byte) error {
	if g.rights.Permit(key, users.Get) {
		return nil
	}
	return id.NotPermitted(deny(key))
}

// Sieve implements protocol.Sifter. Unless every key is permitted, every key must be asked about.
func (g *guard) Sieve() (rest id.Source, sieve *[256]uint64) {
	if sifter, ok := g.Handler.(protocol.Sifter); ok && g.rights.All()&users.Get != 0 {
		return sifter.Sieve()
	}
	return nil, &everyKey
}

var everyKey [256]uint64

func init() {
	for i := range everyKey {
		everyKey[i] = ^uint64(0)
	}
}

// A denied is the source of a key that the user may not ask for: the key itself, so that equal keys have
// equal sources. It refuses ranges of ids too.
type denied string

var _ id.Reserver = denied("")

func deny(key []byte) denied { return denied(key[:min(len(key), protocol.MaxKey)]) }

// Mint implements id.Source.
func (d denied) Mint(id.When, int, bool) (id.Run, error) { return id.Run{}, id.NotPermitted(d) }

// Reserve implements id.Reserver.
func (d denied) Reserve(id.When, int) (id.Run, error) { return id.Run{}, id.NotPermitted(d) }
