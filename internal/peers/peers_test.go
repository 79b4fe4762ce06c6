package peers

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestPeersAreNetworks(t *testing.T) {
	parse := func(s string) (a netip.Addr) {
		a, _ = netip.ParseAddr(s) // "" = a unix socket
		return a
	}
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"10.0.0.1", "::ffff:10.0.0.1", true},
		{"10.0.0.1", "10.0.0.2", false},
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", true},
		{"2001:db8:0:1::1", "2001:db8:0:2::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"", "", true},
		{"", "127.0.0.1", false},
		{"::1", "127.0.0.1", false},
	} {
		one, other := parse(c.one), parse(c.other)
		if (Network(one) == Network(other)) != c.same || (Of(one) == Of(other)) != c.same || Of(one) == 0 {
			t.Errorf("%q and %q are the same peer: %v, want %v", c.one, c.other, !c.same, c.same)
		}
	}
}

// Weights finds the heaviest peer whatever is added and taken, and forgets those that weigh nothing.
func TestWeightsAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var w Weights
	model := map[Peer]int64{}
	for range 20_000 {
		p := Peer(1 + rnd.IntN(30))
		n := rnd.Int64N(100)
		if rnd.IntN(3) == 0 {
			n = -model[p]
		}
		w.Add(p, n)
		if model[p] += n; model[p] == 0 {
			delete(model, p)
		}
		most := int64(0)
		for _, size := range model {
			most = max(most, size)
		}
		if heaviest, size := w.Heaviest(); size != most || model[heaviest] != most {
			t.Fatalf("%d of %d weighs most, want %d", size, heaviest, most)
		}
		if w.Of(p) != model[p] || len(w.of) != len(model) {
			t.Fatalf("%d weighs %d, want %d; %d peers, want %d", p, w.Of(p), model[p], len(w.of), len(model))
		}
	}
}

func TestAPeerThatComesAndGoesAllocatesNothing(t *testing.T) {
	var w Weights
	if n := testing.AllocsPerRun(1000, func() {
		w.Add(7, 1)
		w.Add(7, -1)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
