package static_test

import (
	"errors"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

func TestEphemeral(t *testing.T) {
	now := t0
	s, err := static.NewEphemeral(static.EphemeralConfig{
		Workers: []uint64{7, 9}, Fingerprint: fingerprint, RunAhead: time.Second, Now: func() int64 { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := mustAcquire(t, s, one)
	if g != (workerid.Grant{Worker: 7, Owner: "me", Lo: t0 + 1001, Hi: workerid.Forever}) {
		t.Errorf("%+v", g)
	}
	if _, err := s.Acquire(ctx, one); !errors.Is(err, workerid.ErrNoID) {
		t.Errorf("twice: %v", err)
	}
	if g := mustAcquire(t, s, workerid.Request{Min: 1, Max: 10}); g.Worker != 9 {
		t.Errorf("%+v", g)
	}
	if same, err := extendOne(s, g); err != nil || same != g {
		t.Errorf("%+v, %v", same, err)
	}
	if err := s.Release(ctx, g, g.Lo-2); err == nil {
		t.Error("released before its window")
	}
	if err := s.Release(ctx, g, t0+5000); err != nil {
		t.Error(err)
	}
	if err := s.Release(ctx, g, t0+5000); !errors.Is(err, workerid.ErrLost) {
		t.Errorf("released twice: %v", err)
	}
	if _, err := extendOne(s, g); !errors.Is(err, workerid.ErrLost) {
		t.Errorf("extended after release: %v", err)
	}
	now -= 3000
	if g := mustAcquire(t, s, one); g.Lo != t0+5001 {
		t.Errorf("%+v after a release at %d", g, t0+5000)
	}
}
