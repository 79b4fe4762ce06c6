package unique

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDuplicatesAreNoticedWhereverTheyAre(t *testing.T) {
	const n = 100_000
	for name, id := range map[string]func(i uint64) uint64{
		"in a row":            func(i uint64) uint64 { return 1<<40 + i },
		"last of a tick":      func(i uint64) uint64 { return i<<12 | 0xfff },
		"far apart":           func(i uint64) uint64 { return i << 44 },
		"backwards from 2^64": func(i uint64) uint64 { return math.MaxUint64 - i },
	} {
		t.Run(name, func(t *testing.T) {
			for _, again := range []uint64{0, 1, 63, 64, 4095, 4096, n / 2, n - 1} {
				var s Set
				for i := range uint64(n) {
					if !s.Add(id(i)) {
						t.Fatalf("id %d, added once, is called a duplicate", id(i))
					}
				}
				if s.Duplicates() != 0 || s.Len() != n {
					t.Fatal(s.String())
				}
				if s.Add(id(again)) {
					t.Fatalf("id %d twice: not noticed", id(again))
				}
				if d, found := s.Duplicate(); !found || d != id(again) || s.Len() != n {
					t.Fatalf("%d, %v; want %d", d, found, id(again))
				}
			}
		})
	}
}

func TestZeroIsAnID(t *testing.T) {
	var s Set
	if _, found := s.Duplicate(); found || !s.Add(0) || s.Add(0) {
		t.Fatal("id 0")
	}
	if d, found := s.Duplicate(); d != 0 || !found {
		t.Fatalf("%d, %v", d, found)
	}
}

func TestTheFirstDuplicateIsKept(t *testing.T) {
	var s Set
	s.AddRun(10, 1, 100)
	for _, id := range []uint64{50, 20, 30} {
		s.Add(id)
	}
	if d, _ := s.Duplicate(); d != 50 || s.Duplicates() != 3 || s.Len() != 100 {
		t.Fatal(s.String())
	}
	if want := "3 duplicates of 103 ids, the first 50"; s.String() != want {
		t.Fatalf("%q, want %q", s.String(), want)
	}
}

// TestRunsAndSinglesAgree adds random runs to a Set and one by one to a map, and all of it to another Set.
func TestRunsAndSinglesAgree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var s Set
	seen := map[uint64]bool{}
	var duplicates uint64
	for range 2000 {
		first, stride, n := r.Uint64N(1<<20), []uint64{0, 1, 1, 3, 64, 256, 1 << 16}[r.IntN(7)], r.IntN(200)
		want := 0
		for i := range uint64(n) {
			if id := first + i*stride; seen[id] {
				want++
			} else {
				seen[id] = true
			}
		}
		if got := s.AddRun(first, stride, n); got != want {
			t.Fatalf("run %d, %d, %d: %d duplicates, want %d", first, stride, n, got, want)
		}
		duplicates += uint64(want)
	}
	if s.Len() != uint64(len(seen)) || s.Duplicates() != duplicates {
		t.Fatalf("%v; want %d duplicates, %d different", &s, duplicates, len(seen))
	}
	var other Set
	other.AddRun(1<<20, 1, 100)
	common := uint64(0)
	for id := range uint64(100) {
		if seen[1<<20+id] {
			common++
		}
	}
	other.AddAll(&s)
	if other.Len() != s.Len()+100-common || other.Duplicates() != common {
		t.Fatalf("%v, of which %d were in both", &other, common)
	}
}

func TestPlantLeavesNoTrace(t *testing.T) {
	var s Set
	if s.Plant() == nil {
		t.Fatal("an empty Set has nothing to plant")
	}
	s.AddRun(7, 1, 1000)
	before := s.String()
	if err := s.Plant(); err != nil || s.String() != before {
		t.Fatalf("%v; %s, before %s", err, &s, before)
	}
	clear(s.words)
	if s.Plant() == nil {
		t.Fatal("a Set that forgot its ids passes")
	}
}
