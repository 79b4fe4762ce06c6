package strictsim

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/test/order"
)

// A run ends after length. Faults end at calmAfter.
const calmAfter, length = 28 * sec, 43 * sec

// ErrStuck is the error of a run that ended with something that is not served.
var ErrStuck = errors.New("stuck")

// Run runs a world of sequences in a bubble of package synctest. The error says what went wrong, and when.
func Run(seed uint64, mutant Mutant) (*World, error) { return runWorld(seed, mutant, false) }

// RunTimestamps is Run for timestamps.
func RunTimestamps(seed uint64, mutant Mutant) (*World, error) { return runWorld(seed, mutant, true) }

func runWorld(seed uint64, mutant Mutant, timed bool) (*World, error) {
	w := &World{timed: timed, rnd: rand.New(rand.NewPCG(seed, 0)), mutant: mutant, surplus: map[*sequence]id.Run{}}
	w.board = &board{w: w}
	w.risk = []int{20, 60, 200, 1000}[w.rnd.IntN(4)]
	w.patience = []int64{sec, 30 * sec}[w.rnd.IntN(2)]
	numbers := []string{"orders{a}", "bills{a}", "users"}
	if timed {
		numbers = nil
		w.timestamps(rand.New(rand.NewPCG(seed, 1)))
	}
	for _, text := range numbers {
		d := counter.Definition{Name: text, Start: 1, Step: 1 + w.rnd.Uint64N(3), Max: counter.MaxValue, Strict: true}
		d.Offset = 1 + w.rnd.Uint64N(d.Step)
		if w.rnd.IntN(2) == 0 {
			d.Batch = 1 + w.rnd.Uint64N([]uint64{3, 40}[w.rnd.IntN(2)])
		}
		w.names = append(w.names,
			&name{group: leader.GroupOf(text), record: counter.NewRecord(d, w.board.token()), seen: map[uint64]bool{}})
	}
	stagger := []int64{0, 2 * sec}[w.rnd.IntN(2)] // the first one leads everything
	for i := range 3 {
		h := &host{w: w, index: i, rate: []float64{0.95, 1, 1.05, 0.95 + 0.1*w.rnd.Float64()}[w.rnd.IntN(4)],
			began: sec + w.rnd.Int64N(1000*sec)}
		w.hosts = append(w.hosts, h)
		w.after(int64(i)*stagger+w.rnd.Int64N(sec), h.start)
	}
	for range 3 {
		w.after(w.rnd.Int64N(sec), w.client)
	}
	w.after(w.between(sec, 5*sec), w.faults)
	w.run(calmAfter)
	w.heal()
	w.after(length-sec-w.now, w.probe)
	w.run(length)
	if w.err == nil {
		w.live()
	}
	w.over.Store(true)
	for _, h := range w.hosts {
		if h.process != nil {
			h.process.kill()
		}
	}
	if err := order.Inverted(w.Requests); err != nil && (w.err == nil || errors.Is(w.err, ErrStuck)) {
		w.now, w.err = err.(order.Inversion).B.End, nil
		w.fail("%w", err)
	}
	return w, w.err
}

// faults begins a fault now and then.
func (w *World) faults() {
	if w.calm {
		return
	}
	w.Faults++
	g := w.names[w.rnd.IntN(len(w.names))].group
	h := w.hosts[w.rnd.IntN(len(w.hosts))]
	if l := w.board.state.Leaders[g]; l.ID != "" && w.rnd.IntN(2) == 0 {
		h = w.at(l.Redis)
	}
	d := w.between(0, 2*sec)
	switch w.rnd.IntN(3) {
	case 0:
		d = w.between(0, 15*sec)
	case 1: // just long enough, or not
		d = w.between(4*sec, 7*sec)
	}
	p := h.process
	if p != nil && p.alive {
		w.fault(h, p, g, d)
	}
	w.after(w.between(0, 5*sec), w.faults)
}

// fault is one that lasts for d.
func (w *World) fault(h *host, p *process, g int, d int64) {
	restart := func() { w.after(min(d, max(calmAfter-w.now, 0)), h.start) }
	switch w.rnd.IntN(9) {
	case 0:
		p.kill()
		restart()
	case 1, 2:
		p.frozen = min(max(p.frozen, w.now+d), calmAfter)
	case 3:
		h.cut = true
		w.after(d, func() { h.cut = false })
	case 4:
		h.alone = true
		w.after(d, func() { h.alone = false })
	case 5:
		if w.rnd.IntN(2) == 0 {
			w.board.down = true
			w.after(d, w.board.up)
		}
	case 6, 7:
		if w.rnd.IntN(6) == 0 {
			g = w.rnd.IntN(leader.Groups) + w.names[0].group/leader.Groups*leader.Groups
		}
		p.soon(func() { p.demote(g) })
	case 8:
		p.soon(func() { p.stop(10*sec, restart) })
	}
}

// up is when etcd answers again.
func (b *board) up() {
	b.down = false
	waiting := b.waiting
	b.waiting = nil
	for _, f := range waiting {
		b.w.after(b.w.between(0, 10*ms), f)
	}
}

// heal ends all faults.
func (w *World) heal() {
	w.calm = true
	w.board.up()
	for _, h := range w.hosts {
		h.cut, h.alone = false, false
		if p := h.process; p != nil && p.alive {
			p.frozen = min(p.frozen, w.now)
		}
	}
}

// probe sees whether all is well at the end: each host serves each name.
func (w *World) probe() {
	for _, n := range w.names {
		for i := range w.hosts {
			w.request(i, n, func(ok bool) {
				if ok {
					w.probes++
				}
			})
		}
	}
}

// live checks that.
func (w *World) live() {
	for g, l := range w.board.state.Leaders {
		if leader.Timed(g) && !slices.ContainsFunc(w.names, func(n *name) bool { return n.group == g }) {
			continue
		}
		if l.ID == "" || w.at(l.Redis).process.id != l.ID {
			w.fail("%w: group %d has no leader: %+v", ErrStuck, g, l)
			return
		}
	}
	if w.probes < len(w.names)*len(w.hosts) {
		w.fail("%w: only %d of 9 requests were served", ErrStuck, w.probes)
	}
}
