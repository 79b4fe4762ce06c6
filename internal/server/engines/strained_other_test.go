//go:build !linux

package engines

func strained() []candidate { return nil }
