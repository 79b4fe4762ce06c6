package server

// strained are engines for which everything that is usually large enough is too small, so that what happens then does happen.
func strained() []candidate {
	if ProbeUring() != nil {
		return nil
	}
	return []candidate{{"tinyuring", func(c Config) Engine {
		e := NewUring(c)
		e.sizes = uringSizes{submissions: 2, completions: 4, buffers: 1, maxBuffers: 2, bufferSize: 100, replies: 2 * replyFull}
		return e
	}, nil}}
}
