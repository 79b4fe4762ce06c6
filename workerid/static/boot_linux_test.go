package static

import (
	"os"
	"strings"
	"testing"
)

// TestBootID: plain system calls read what package os reads.
func TestBootID(t *testing.T) {
	want, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if got := readClocks().BootID; err == nil && (got == "" || got != strings.TrimSpace(string(want))) {
		t.Errorf("%q, want %q", got, want)
	}
}
