package order

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// history makes requests whose values are taken in order at some moment between begin and end.
func history(seed uint64, n int) (all []Request) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	next := map[string]uint64{"a": 1, "b": 1}
	for now := int64(0); len(all) < n; now += rnd.Int64N(10) {
		name := []string{"a", "b"}[rnd.IntN(2)]
		r := Request{Name: name, Begin: now - rnd.Int64N(100), End: now + rnd.Int64N(100), First: next[name], Stride: 3,
			N: 1 + rnd.IntN(4)}
		next[name] = r.last() + 3
		all = append(all, r)
	}
	rnd.Shuffle(n, func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

func TestWhatIsRightPasses(t *testing.T) {
	for seed := range uint64(50) {
		all := history(seed, 500)
		if err := Twice(all); err != nil {
			t.Fatal(err)
		}
		if err := Inverted(all); err != nil {
			t.Fatal(err)
		}
	}
}

// One wrong request among five hundred right ones is found, wherever it is.
func TestAPlantedDuplicateIsFound(t *testing.T) {
	for seed := range uint64(50) {
		all := history(seed, 500)
		i, j := int(seed), 499-int(seed)
		all[i].Name, all[i].First = all[j].Name, all[j].last()
		if err := Twice(all); err == nil || !strings.Contains(err.Error(), "issued twice: [") {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func TestAPlantedInversionIsFound(t *testing.T) {
	for seed := range uint64(50) {
		all := history(seed, 500)
		// The value of a, asked for just after a larger one was answered.
		a := all[seed]
		late := Request{Name: a.Name, Begin: a.End + 1, End: a.End + 1000, First: a.First, Stride: 1, N: 1}
		a.First++
		a.N = 1
		all = append(all[:seed], all[seed+1:]...)
		if err := Inverted(append(all, a, late)); err == nil || !strings.Contains(err.Error(), "inverted: [") {
			t.Fatalf("seed %d: %v", seed, err)
		}
		late.Begin = a.End // at the same time is not after
		if err := Inverted([]Request{a, late}); err != nil {
			t.Fatal(err)
		}
	}
}
