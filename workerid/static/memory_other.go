//go:build !linux

package static

// SharedMemory is to be had on Linux only.
func SharedMemory(string) (Memory, error) { return nil, errNoMemory }
