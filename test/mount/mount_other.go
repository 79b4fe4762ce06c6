//go:build !linux

package mount

import "testing"

// Small skips the test: only on Linux can a test mount a file system.
func Small(t *testing.T, size string) string {
	t.Helper()
	t.Skip("a small file system can only be mounted on Linux")
	return ""
}
