package server

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/peers"
)

// A share knows the total, and finds the biggest holder of the peer that holds the most, or the share that
// has it. Holdings whose peer is not known weigh alone.
func TestShareAgainstAModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := NewBudget(1 << 20)
	var asked [3]int
	var shares [3]*Share
	var holdings [3][40]Holding
	for i := range shares {
		shares[i] = b.Share(func() { asked[i]++ }, func() {})
	}
	for range 20_000 {
		i := rnd.IntN(3)
		h := &holdings[i][rnd.IntN(40)]
		if p := peers.Peer(rnd.IntN(8)) << 60; h.Size == 0 {
			h.Peer = p
		} else if h.Peer == 0 && rnd.IntN(2) == 0 {
			shares[i].Move(h, p)
		}
		shares[i].Set(h, int64(rnd.IntN(3)*rnd.IntN(40<<10)))
		shares[i].Flush()
		var sum, heaviest int64
		weights := map[any]int64{}
		key := func(h *Holding) any {
			if h.Peer == 0 {
				return h
			}
			return h.Peer
		}
		for i := range holdings {
			for j := range holdings[i] {
				h := &holdings[i][j]
				sum += h.Size
				weights[key(h)] += h.Size
				heaviest = max(heaviest, weights[key(h)])
			}
		}
		if b.Held() != sum {
			t.Fatalf("%d bytes held, want %d", b.Held(), sum)
		}
		// Each share's biggest holders of the heaviest peer; there are seldom two that weigh the same.
		var right [3][]*Holding
		for who, weight := range weights {
			if weight < heaviest {
				continue
			}
			most := int64(0)
			var biggest [3]*Holding // several, if they are as big
			for i := range holdings {
				for j := range holdings[i] {
					h := &holdings[i][j]
					if key(h) != who || h.Size < most {
						continue
					}
					if h.Size > most {
						most, biggest = h.Size, [3]*Holding{}
					}
					biggest[i] = h
				}
			}
			for i, h := range biggest {
				if h != nil {
					right[i] = append(right[i], h)
				}
			}
		}
		asked = [3]int{}
		got := shares[i].Biggest()
		switch {
		case sum <= b.Limit():
			if got != nil || asked != [3]int{} {
				t.Fatalf("within the limit %v is to go, %v are asked", got, asked)
			}
		case got != nil:
			same := func(h *Holding) bool { return h.Size == got.Size && key(h) == key(got) }
			if !slices.ContainsFunc(right[i], same) || asked != [3]int{} {
				t.Fatalf("%v is to go, %v are asked, want %v", got, asked, right)
			}
		default:
			if n := asked[0] + asked[1] + asked[2]; n != 1 || asked[i] == 1 {
				t.Fatalf("%v are asked by %d, want one of %v", asked, i, right)
			}
			for j := range asked {
				if asked[j] == 1 && len(right[j]) == 0 {
					t.Fatalf("%v are asked, want one of %v", asked, right)
				}
			}
		}
	}
	for i := range shares {
		for j := range holdings[i] {
			shares[i].Set(&holdings[i][j], 0)
		}
		shares[i].Flush()
		if len(shares[i].crowds)+len(shares[i].tops) != 0 {
			t.Errorf("share %d remembers %d and %d peers", i, len(shares[i].crowds), len(shares[i].tops))
		}
		shares[i].Leave()
	}
	if p, n := b.weights.Heaviest(); b.Held() != 0 || len(b.shares) != 0 || n != 0 {
		t.Errorf("%d bytes held in %d shares in the end, %d by %d", b.Held(), len(b.shares), n, p)
	}
}
