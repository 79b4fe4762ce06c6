//go:build !linux

package server

func candidates() []candidate { return []candidate{netCandidate()} }
