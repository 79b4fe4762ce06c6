package clock

import (
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkBoot compares the ways to read the clock.
func BenchmarkBoot(b *testing.B) {
	b.Run("moment", func(b *testing.B) {
		for b.Loop() {
			Moment()
		}
	})
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
