//go:build !linux

package redistest

import "testing"

// InOwnNetwork skips the test: only Linux has network namespaces.
func InOwnNetwork(t *testing.T) bool {
	t.Skip("only Linux has network namespaces")
	return false
}

// DropPackets is for tests that InOwnNetwork does not skip.
func DropPackets(t testing.TB, ip string) {}
