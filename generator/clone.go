package generator

// Clone is a copy of a Sequence that goes on by itself, with its own ring. Nothing else may use the Sequence
// meanwhile. It is for test/explore, which runs every schedule of a small world.
func (s *Sequence) Clone(ring func()) *Sequence {
	c := &Sequence{step: s.step, ring: ring, floor: s.floor, ended: s.ended}
	c.passed.Store(s.passed.Load())
	for b := s.current.Load(); b != nil; b = b.next.Load() {
		n := &block{lo: b.lo, below: b.below, prior: b.prior}
		n.taken.Store(b.taken.Load())
		n.end.Store(b.end.Load())
		n.mark.Store(b.mark.Load())
		if c.tail == nil {
			c.current.Store(n)
		} else {
			c.tail.next.Store(n)
		}
		c.tail = n
	}
	return c
}

// Visit shows all that decides which values come next: of each block its first value, how many are gone (with the
// mark of a Sequence that is sealed), how many there are, and where it rings; then the floor.
func (s *Sequence) Visit(show func(...uint64)) {
	for b := s.current.Load(); b != nil; b = b.next.Load() {
		show(b.lo, b.taken.Load(), b.end.Load(), b.mark.Load())
	}
	show(s.floor)
}
