//go:build !linux

package file_test

import "testing"

func mountSmall(t *testing.T) string {
	t.Skip("small file systems are mounted on Linux only")
	return ""
}
