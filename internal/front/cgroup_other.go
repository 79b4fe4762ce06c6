//go:build !linux

package front

// memoryLimit returns 0: this system has no control groups.
func memoryLimit(string) int64 { return 0 }

// lessThanOneCPU returns false: this system has no control groups.
func lessThanOneCPU(string) bool { return false }
