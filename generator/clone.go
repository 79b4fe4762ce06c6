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

// Clone is a copy of Positions that goes on by itself, with the same config.
func (p *Positions) Clone() *Positions {
	c := NewPositions(p.c)
	c.next.Store(p.next.Load())
	c.end.Store(p.end.Load())
	c.mark.Store(p.mark.Load())
	c.began.Store(p.began.Load())
	c.skipped.Store(p.skipped.Load())
	c.away.Store(p.away.Load())
	c.anchor.Store(p.anchor.Load())
	return c
}

// Visit shows all that decides which positions come next: positions, and numbers. now is a moment.
func (p *Positions) Visit(now int64, position func(uint64), number func(int64)) {
	next, flags := p.next.Load(), int64(0)
	if next >= sealed {
		flags = 1
	}
	if p.away.Load() {
		flags += 2
	}
	number(flags)
	for _, at := range []uint64{next &^ sealed, p.end.Load(), p.mark.Load(), p.began.Load()} {
		position(at)
	}
	if a := p.anchor.Load(); a != nil {
		position(a.position)
		number(now - a.moment)
	}
}
