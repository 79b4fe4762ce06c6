package peers

import "container/heap"

// A Weighted is an element of a Heap. Its weight changes only when Fix follows.
type Weighted interface {
	Weight() int64
	place() *Place
}

// A Place is where an element stands in its Heap. Elements embed it.
type Place struct{ at int }

func (p *Place) place() *Place { return p }

// A Heap has the heaviest of its elements on top, at index 0. The zero value is empty.
type Heap[T Weighted] []T

// Add adds an element that is in no Heap.
func (h *Heap[T]) Add(one T) { heap.Push((*order[T])(h), one) }

// Fix moves an element whose weight has changed to where it belongs.
func (h *Heap[T]) Fix(one T) { heap.Fix((*order[T])(h), one.place().at) }

// Remove takes an element out.
func (h *Heap[T]) Remove(one T) { heap.Remove((*order[T])(h), one.place().at) }

// An order is a Heap as package heap wants it.
type order[T Weighted] []T

func (o order[T]) Len() int           { return len(o) }
func (o order[T]) Less(i, j int) bool { return o[i].Weight() > o[j].Weight() }
func (o order[T]) Swap(i, j int) {
	o[i], o[j] = o[j], o[i]
	o[i].place().at, o[j].place().at = i, j
}

// Push implements heap.Interface.
func (o *order[T]) Push(x any) {
	one := x.(T)
	one.place().at = len(*o)
	*o = append(*o, one)
}

// Pop implements heap.Interface.
func (o *order[T]) Pop() any {
	last := len(*o) - 1
	one := (*o)[last]
	clear((*o)[last:])
	*o = (*o)[:last]
	return one
}
