package clock

import (
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkBoot compares the two ways to make the call.
func BenchmarkBoot(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			Boot()
		}
	})
	b.Run("scheduled", func(b *testing.B) {
		for b.Loop() {
			read(unix.CLOCK_BOOTTIME)
		}
	})
}
