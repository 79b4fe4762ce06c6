//go:build !linux

package users

const niceness = 0

func lowerPriority() error { return nil }
