package std

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// TestFreezeThatGaveUpAwaitsNobody: a sleeper that comes to rest after a Freeze has given up, and before the
// thaw, does not count in the next one. That would end too soon, or never.
func TestFreezeThatGaveUpAwaitsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(server.Config{})
		first, second := new(sleeper), new(sleeper)
		g := &group{Engine: e, conns: map[*conn]struct{}{}, freezer: freezer{acceptors: []*sleeper{first, second}}}
		gaveUp, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.freeze(gaveUp); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		go g.hold(first)
		synctest.Wait() // it rests
		e.thaw([]*group{g}, nil)
		synctest.Wait()
		frozen := make(chan error, 1)
		go func() {
			_, err := g.freeze(t.Context())
			frozen <- err
		}()
		synctest.Wait()
		go g.hold(first)
		synctest.Wait()
		select {
		case err := <-frozen:
			t.Fatalf("frozen while one accepts: %v", err)
		default:
		}
		go g.hold(second)
		synctest.Wait()
		select {
		case err := <-frozen:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("not frozen, though all rest")
		}
		e.thaw([]*group{g}, nil)
	})
}
