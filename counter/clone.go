package counter

import "time"

// Clone is a copy of a Machine that goes on by itself, with its own issuer. It is for test/explore, which runs every
// schedule of a small world.
func (m *Machine) Clone(to Issuer) *Machine {
	c := *m
	c.to = to
	return &c
}

// Visit shows all that decides how a Machine with a fixed batch, or of timestamps, goes on: its newest block, the next
// value and the floor, until when it does not ask, when the block came, which matters to timestamps only, and numbers.
func (m *Machine) Visit(show func(b Block, next, floor uint64, retry, came time.Time, numbers ...uint64)) {
	flags := uint64(0)
	for i, f := range []bool{m.dry, m.calling, m.closed, m.faulty} {
		if f {
			flags |= 1 << i
		}
	}
	show(m.last, m.next, m.floor, m.retry, m.at, m.asked, m.size, m.block, uint64(m.failed), flags)
}
