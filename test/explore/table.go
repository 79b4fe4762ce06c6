package explore

// A table is the states that were visited, and what was left of the bound. A slot takes 12 bytes, and at
// most three of four are used.
type table struct {
	keys []uint64 // 0 = free
	left []uint32
	n    int
	most int
}

// add notes a state. It returns false if it was visited before with at least as much left.
func (t *table) add(key uint64, l uint32) bool {
	if key == 0 {
		key = 1
	}
	if 4*t.n >= 3*len(t.keys) && t.n < t.most {
		t.grow()
	}
	i := t.find(key)
	switch {
	case t.keys[i] == key && covers(t.left[i], l):
		return false
	case t.keys[i] == key && covers(l, t.left[i]):
		t.left[i] = l
	case t.keys[i] == 0 && t.n < t.most:
		t.keys[i], t.left[i] = key, l
		t.n++
	}
	return true
}

// find returns the slot of a key, or the free one where it belongs.
func (t *table) find(key uint64) int {
	mask := len(t.keys) - 1
	i := int(key>>1) & mask
	for t.keys[i] != 0 && t.keys[i] != key {
		i = (i + 1) & mask
	}
	return i
}

func (t *table) grow() {
	old := *t
	t.keys = make([]uint64, max(1<<12, 2*len(old.keys)))
	t.left = make([]uint32, len(t.keys))
	for i, key := range old.keys {
		if key != 0 {
			at := t.find(key)
			t.keys[at], t.left[at] = key, old.left[i]
		}
	}
}
