package redis

import (
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/storetest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storetest.Run(t, func(t testing.TB, n int) storetest.Pool {
		w := worldOf(t.(*testing.T), server)
		w.server.Do("FLUSHALL")
		w.config.Max = uint64(n)
		w.config.MaxSkew = 4e9 // the suite sets clocks back by 3 s
		w.init(New)
		return storetest.Pool{
			Min: 1, Max: uint64(n), Lease: lease, Refusal: script.ErrClockBack, Now: w.now, Advance: w.advance,
			Open:  func(t testing.TB) workerid.Store { return w.daemon().Store },
			Crash: func(s workerid.Store) { s.(*Store).Close() },
		}
	})
}

func TestAFreeIDIsGrantedAtOnce(t *testing.T) {
	w := newWorld(t)
	if got := w.init(New); got != Made {
		t.Errorf("init: %s", got)
	}
	d := w.daemon()
	w.advance(1)
	if g := d.acquire(); g.Worker != 1 || g.Lo > w.now() || g.Hi != w.now()+lease {
		t.Errorf("%+v", g)
	}
	d.extend()
	w.advance(lease)
	d.extend()
	if err := d.release(w.now()); err != nil {
		t.Error(err)
	}
	if s := d.Status(); s.Addr != w.server.Addr() || s.Incarnation == "" || s.Ahead != 0 {
		t.Errorf("%+v", s)
	}
}
