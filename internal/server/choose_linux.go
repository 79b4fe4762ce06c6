package server

// candidates are the engines for Linux, the fastest first.
func candidates() []candidate {
	return []candidate{
		{"uring", func(c Config) Engine { return NewUring(c) }, ProbeUring},
		{"epoll", func(c Config) Engine { return NewEpoll(c) }, func() error { return nil }},
		netCandidate(),
	}
}
