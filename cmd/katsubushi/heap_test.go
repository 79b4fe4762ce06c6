package main

import "testing"

func TestGCPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 700, 1 << 20: 700, 4 << 20: 700, 5 << 20: 525, 8 << 20: 300, 16 << 20: 100,
		17 << 20: 100, 1 << 40: 100} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB live: %d, want %d", live>>20, got, want)
		}
	}
}
