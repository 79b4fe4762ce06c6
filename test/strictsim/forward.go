package strictsim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
)

// A forwarder is how a sequence reaches other hosts. A Strict calls it on a goroutine of its own, which
// then waits until the world has an answer. So that one seed gives one run, the world goes on only while
// all those goroutines wait (settle).
type forwarder struct{ s *sequence }

// A forward is a call under way.
type forward struct {
	s      *sequence
	to     string
	n      int
	result chan result
	over   bool
}

type result struct {
	last uint64
	err  error
}

var errCut = errors.New("no answer from there")

// Last implements issuer.Forwarder.
func (f forwarder) Last(ctx context.Context, address, _ string, n int) (uint64, error) {
	w := f.s.p.w
	c := &forward{s: f.s, to: address, n: n, result: make(chan result, 1)}
	if w.over.Load() {
		return 0, errCut
	}
	w.mu.Lock()
	w.entered = append(w.entered, c)
	w.mu.Unlock()
	select {
	case r := <-c.result:
		return r.last, r.err
	case <-ctx.Done():
		w.mu.Lock()
		w.left = append(w.left, c)
		w.mu.Unlock()
		return 0, ctx.Err()
	}
}

// settle waits until all goroutines wait, and carries out what they have asked for.
func (w *World) settle() {
	for {
		synctest.Wait()
		w.mu.Lock()
		entered, left := w.entered, w.left
		w.entered, w.left = nil, nil
		w.mu.Unlock()
		if len(entered)+len(left) == 0 {
			return
		}
		inOrder(entered)
		inOrder(left)
		for _, c := range left { // each takes its place in forwards from begin on
			c.over = true
			w.forget(c)
			c.s.p.resume()
		}
		for _, c := range entered {
			w.forwards = append(w.forwards, c)
			if c.s.p.alive {
				c.begin()
			} else {
				c.end(0, errCut)
			}
		}
	}
}

// inOrder makes the order of calls that came at once the same in each run.
func inOrder(calls []*forward) {
	slices.SortFunc(calls, func(a, b *forward) int {
		return cmp.Or(cmp.Compare(a.s.p.id, b.s.p.id), cmp.Compare(a.s.n.record.Name, b.s.n.record.Name))
	})
}

func (w *World) forget(c *forward) {
	w.forwards = slices.DeleteFunc(w.forwards, func(x *forward) bool { return x == c })
}

// resume lets the time pass that a Strict waits after a failure.
func (p *process) resume() {
	if p.alive {
		p.after(25*ms, func() {
			time.Sleep(25 * time.Millisecond)
			p.w.settle()
		})
	}
}

// hangUp ends all calls of a process.
func (w *World) hangUp(p *process) {
	for _, c := range slices.Clone(w.forwards) {
		if c.s.p == p {
			c.end(0, errCut)
		}
	}
	w.settle()
}

// end is the end of a call.
func (c *forward) end(last uint64, err error) {
	if c.over {
		return
	}
	c.over = true
	c.s.p.w.forget(c)
	c.result <- result{last, err}
	if err != nil {
		c.s.p.resume()
	}
}

// begin sends a request to the leader's host.
func (c *forward) begin() {
	s, p, w := c.s, c.s.p, c.s.p.w
	w.Forwards++
	stop := func(last uint64, err error) {
		c.end(last, err)
		w.settle()
	}
	p.after(w.between(200*ms, 2*sec), func() { stop(0, errCut) })
	count := c.n
	switch surplus := w.surplus[s]; {
	case w.mutant == Surplus && surplus.N >= c.n:
		w.surplus[s] = id.Run{First: surplus.First + uint64(c.n)*surplus.Stride, Stride: surplus.Stride, N: surplus.N - c.n}
		p.after(ms, func() { stop(surplus.First+uint64(c.n-1)*surplus.Stride, nil) })
		return
	case w.mutant == Surplus:
		count += 5
	}
	if p.host.alone || w.chance(w.risk) {
		return
	}
	a := &ask{n: s.n, count: count, whole: true, redirect: true, forward: true}
	a.reply = func(run id.Run, err error) {
		if p.host.alone || w.chance(w.risk) {
			return
		}
		p.push(w.delay(), nil, func() {
			switch {
			case w.mutant == LateForward && c.over && err == nil: // it is read as the answer to a newer request
				for _, newer := range w.forwards {
					if newer.s == s && newer.n == c.n {
						newer.end(run.First+uint64(c.n-1)*run.Stride, nil)
						break
					}
				}
				w.settle()
			case err != nil:
				stop(0, err)
			default:
				if w.mutant == Surplus {
					w.surplus[s] = id.Run{First: run.First + uint64(c.n)*run.Stride, Stride: run.Stride, N: run.N - c.n}
				}
				stop(run.First+uint64(c.n-1)*run.Stride, nil)
			}
		})
	}
	w.at(c.to).send(a)
}
