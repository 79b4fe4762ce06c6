package server

import (
	"math/rand/v2"
	"testing"
)

// A share knows its biggest holder and the total, and finds the share with a bigger holder.
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
		shares[i].Set(&holdings[i][rnd.IntN(40)], int64(rnd.IntN(3)*rnd.IntN(40<<10)))
		shares[i].Flush()
		var sum int64
		var most [3]int64
		for i := range holdings {
			for _, h := range holdings[i] {
				sum += h.Size
				most[i] = max(most[i], h.Size)
			}
		}
		if b.Held() != sum {
			t.Fatalf("%d bytes held, want %d", b.Held(), sum)
		}
		asked = [3]int{}
		h, bigger := shares[i].Biggest(), max(most[0], most[1], most[2])
		switch {
		case sum <= b.Limit():
			if h != nil || asked != [3]int{} {
				t.Fatalf("within the limit %v is to go, %v are asked", h, asked)
			}
		case most[i] == bigger:
			if h == nil || h.Size != bigger || asked != [3]int{} {
				t.Fatalf("%v is to go, %v are asked, want one of %d bytes", h, asked, bigger)
			}
		default:
			for j := range asked {
				if asked[j] > 0 && most[j] != bigger || h != nil {
					t.Fatalf("%v is to go, %v are asked, want one of %v", h, asked, most)
				}
			}
			if asked == [3]int{} {
				t.Fatal("nobody is asked")
			}
		}
	}
	for i := range shares {
		for j := range holdings[i] {
			shares[i].Set(&holdings[i][j], 0)
		}
		shares[i].Leave()
	}
	if b.Held() != 0 || len(b.shares) != 0 {
		t.Errorf("%d bytes held in %d shares in the end", b.Held(), len(b.shares))
	}
}
