package static_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// The same worker id twice on this host, in different directories or in none: only the claim finds
// that.
func TestClaim(t *testing.T) {
	layout := fmt.Sprintf("test-%x", rand.Uint64()) // not one that somebody else on this host uses
	a, b := newWorld(t).config(7), newWorld(t).config(7)
	a.Fingerprint, a.Claim, b.Fingerprint, b.Claim = layout, true, layout, true
	e := static.EphemeralConfig{Workers: []uint64{7}, Fingerprint: layout, Now: a.Now, Claim: true}

	s, err := static.Open(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := static.Open(b); !errors.Is(err, static.ErrInUse) ||
		!strings.Contains(err.Error(), fmt.Sprintf("worker id 7: in use by process %d", os.Getpid())) {
		t.Errorf("another directory: %v", err)
	}
	if _, err := static.NewEphemeral(e); !errors.Is(err, static.ErrInUse) {
		t.Errorf("no directory: %v", err)
	}
	off := b
	off.Claim = false
	other := b
	other.Workers = []uint64{8}
	foreign := newWorld(t).config(7)
	foreign.Fingerprint, foreign.Claim = layout+"-other", true
	for what, c := range map[string]static.Config{"claim off": off, "another worker id": other,
		"another layout": foreign} {
		s, err := static.Open(c)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		s.Close()
	}
	g := mustAcquire(t, s, one)
	if err := s.Release(ctx, g, g.Lo-1); err != nil {
		t.Fatal(err)
	}
	free, err := static.NewEphemeral(e)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if _, err := s.Acquire(ctx, one); !errors.Is(err, static.ErrInUse) {
		t.Errorf("acquired again beside another: %v", err)
	}
	free.Close()
	if _, err := s.Acquire(ctx, one); err != nil {
		t.Errorf("acquired again: %v", err)
	}
	s.Close()
}
