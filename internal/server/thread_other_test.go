//go:build !linux

package server

func thread() int { return 0 }
