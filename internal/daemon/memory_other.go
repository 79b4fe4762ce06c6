//go:build !linux

package daemon

// memoryLimit is 0: there are no control groups.
func memoryLimit(string) int64 { return 0 }
