//go:build !linux

package engines

func thread() int { return 0 }
