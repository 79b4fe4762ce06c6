// Package eventqueue keeps what is due in a simulated world. Events come in the order of their times, and those of
// one time in the order in which they were added: so one seed gives one run.
package eventqueue

// A Queue is a heap. Package container/heap would allocate for each event. The zero value is empty.
type Queue[E any] struct {
	heap  []entry[E]
	added int
}

type entry[E any] struct {
	at    int64
	n     int
	event E
}

func (e *entry[E]) before(x *entry[E]) bool { return e.at < x.at || e.at == x.at && e.n < x.n }

// Add adds an event that is due at a time.
func (q *Queue[E]) Add(at int64, event E) {
	q.added++
	x := entry[E]{at, q.added, event}
	q.heap = append(q.heap, x)
	i := len(q.heap) - 1
	for up := (i - 1) / 2; i > 0 && x.before(&q.heap[up]); i, up = up, (up-1)/2 {
		q.heap[i] = q.heap[up]
	}
	q.heap[i] = x
}

// Next removes the first event, if it is due by until, and returns its time.
func (q *Queue[E]) Next(until int64) (at int64, event E, ok bool) {
	if len(q.heap) == 0 || q.heap[0].at > until {
		return 0, event, false
	}
	first, n := q.heap[0], len(q.heap)-1
	x := q.heap[n]
	q.heap[n] = entry[E]{}
	q.heap = q.heap[:n]
	for i := 0; n > 0; {
		down := 2*i + 1
		if down+1 < n && q.heap[down+1].before(&q.heap[down]) {
			down++
		}
		if down >= n || !q.heap[down].before(&x) {
			q.heap[i] = x
			break
		}
		q.heap[i], i = q.heap[down], down
	}
	return first.at, first.event, true
}
