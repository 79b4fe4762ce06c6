//go:build !linux

package engines

func candidates() []candidate { return []candidate{netCandidate()} }
