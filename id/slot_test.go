package id

import "testing"

// The sums are those of the XMODEM CRC's definition and of Redis Cluster's specification; the slots are what
// CLUSTER KEYSLOT of Redis 7.0 answers.
func TestSlot(t *testing.T) {
	if sum := crc16("123456789"); sum != 0x31C3 {
		t.Errorf("%#x", sum)
	}
	for name, want := range map[string]int{
		"":                     0,
		"a":                    15495,
		"orders":               105,
		"foo":                  12182,
		"123456789":            12739,
		"{user1000}.following": 3443,
		"{user1000}.followers": 3443,
		"user1000":             3443,
		"foo{}{bar}":           8363,
		"{bar}":                5061,
		"foo{{bar}}zap":        4015,
		"{bar":                 4015,
		"foo{bar}{zap}":        5061,
		"foo{bar":              15278,
		"foo}bar{":             11073,
		"}{a}":                 15495,
		"{}":                   15257,
		"{}a":                  10875,
		"a{b}c{d}":             3300,
		"id":                   7568,
	} {
		if got := Slot(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
		if got := Slot([]byte(name)); got != want {
			t.Errorf("%q as bytes: %d, want %d", name, got, want)
		}
	}
}
