package explore

import (
	"context"
	"io/fs"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A port is how a Store reaches the present state: its disk, its memory and its clocks. All states share one. A call
// that was interrupted is run again from its start, with the answers that it had.
type port struct {
	w      *files
	i      int // the daemon that calls
	choice Choice
	told   []answered // in room that the next call uses again
	n      int        // of those that were used
	asked  int8
	over   error // no further request: the daemon waits
	later  []func()
	words  []*atomic.Uint64 // by page; only valid during a call
}

// answered is the answer to any request.
type answered struct {
	err    error
	fd     int
	yes    bool
	slots  [2]*slot
	page   page
	clocks static.Clocks
	now    int64
	text   string
}

// begin lets a daemon call its Store, with the answers that an interrupted call had.
func (p *port) begin(w *files, i int, c Choice, told []answered) {
	*p = port{w: w, i: i, choice: c, told: append(p.told[:0], told...), later: p.later[:0], words: p.words}
	if c.Kind == Default {
		p.choice.At = -1
	}
	for n := range w.pages {
		p.word(n).Store(w.pages[n].word)
	}
}

// end takes over what was written to pages.
func (p *port) end() {
	for n := range p.w.pages {
		if x := &p.w.pages[n]; x.daemon == p.i {
			x.word = p.word(n).Load()
		}
	}
}

func (p *port) word(n int) *atomic.Uint64 {
	for n >= len(p.words) {
		p.words = append(p.words, new(atomic.Uint64))
	}
	return p.words[n]
}

// ask is one request that may fail: as it was answered, or now.
func (p *port) ask(do func(w *files, daemon int) answered) answered {
	return p.askOr(func(*files) {}, do)
}

// askOr is one whose failure has an effect.
func (p *port) askOr(fail func(w *files), do func(w *files, daemon int) answered) answered {
	switch {
	case p.over != nil:
		return answered{err: p.over}
	case p.n < len(p.told):
		p.n++
		return p.told[p.n-1]
	}
	kind := p.choice.Kind
	if p.asked != p.choice.At {
		kind = Default
	}
	p.asked++
	w := p.w
	switch kind {
	case StopSend:
		p.over = errWaits
		return answered{err: errWaits}
	case Fails:
		fail(w)
		a := answered{err: []error{syscall.EIO, syscall.ENOSPC}[p.choice.Arg]}
		p.keep(a)
		return a
	}
	a := do(w, p.i)
	p.keep(a)
	return a
}

// look is a request that cannot fail and that nothing comes before.
func (p *port) look(do func(w *files) answered) answered {
	switch {
	case p.over != nil:
		return answered{err: p.over}
	case p.n < len(p.told):
		p.n++
		return p.told[p.n-1]
	}
	a := do(p.w)
	p.keep(a)
	return a
}

func (p *port) keep(a answered) {
	p.told = append(p.told, a)
	p.n++
}

// Prepare implements durable.Disk.
func (p *port) Prepare(string) (string, error) { return "", nil }

// Open implements durable.Disk.
func (p *port) Open(path string, create bool) (durable.File, error) {
	a := p.ask(func(w *files, i int) (a answered) {
		a.fd, a.err = w.disk.open(i, nameOf(path), create)
		return a
	})
	if a.err != nil {
		return nil, a.err
	}
	return handle{p, a.fd}, nil
}

// Rename implements durable.Disk.
func (p *port) Rename(from, to string) error {
	return p.ask(func(w *files, _ int) (a answered) {
		a.err = w.disk.rename(nameOf(from), nameOf(to))
		return a
	}).err
}

// Remove implements durable.Disk.
func (p *port) Remove(path string) error {
	return p.ask(func(w *files, _ int) answered {
		w.disk.names[nameOf(path)] = 0
		return answered{}
	}).err
}

// SyncDir implements durable.Disk.
func (p *port) SyncDir(string) error {
	return p.ask(func(w *files, _ int) answered {
		w.disk.synced = w.disk.names
		return answered{}
	}).err
}

// Names implements durable.Disk.
func (p *port) Names(string) ([]string, error) { return nil, fs.ErrNotExist }

// Version implements durable.Disk: it is never certain, so that both files are looked at, one after the other.
func (p *port) Version(string) durable.Version { return durable.Version{} }

// A page is a run's page of memory.
type page struct {
	id, nonce string
	issued    int64
	word      uint64
	daemon    int  // that has it mapped; -1 = none
	gone      bool // nobody finds it
	changed   bool // it was written to while it was in use
}

// Make implements static.Memory.
func (p *port) Make(nonce string, issued int64) (static.Page, error) {
	a := p.ask(func(w *files, i int) answered {
		x := page{nonce: nonce, issued: issued, daemon: i}
		w.past = [3][]page{w.past[1], w.past[2], nil}
		for _, y := range w.pages {
			if !y.gone {
				y.daemon = -1
				w.past[2] = append(w.past[2], y)
			}
		}
		for n := 0; x.id == ""; n++ { // names are as weak as can be
			if !slices.ContainsFunc(w.past[2], func(y page) bool { return y.id == pageNames[n] }) {
				x.id = pageNames[n]
			}
		}
		w.pages = append(w.pages, x)
		return answered{page: x, fd: len(w.pages) - 1}
	})
	if a.err != nil {
		return static.Page{}, a.err
	}
	p.word(a.fd).Store(0)
	return static.Page{ID: a.page.id, Word: p.word(a.fd)}, nil
}

// numbered returns names.
func numbered(prefix string) (all [64]string) {
	for i := range all {
		all[i] = prefix + string(rune('0'+i/10)) + string(rune('0'+i%10))
	}
	return all
}

var pageNames, nonceNames, bootNames = numbered("page-"), numbered("nonce-"), numbered("boot-")

// Find implements static.Memory.
func (p *port) Find(id, nonce string) (int64, uint64, error) {
	a := p.ask(func(w *files, _ int) answered {
		for _, x := range w.pages {
			sameID, sameNonce := x.id == id || w.mutant == anyPage, x.nonce == nonce || w.mutant == anyRun
			if sameID && sameNonce && !x.gone && !(x.changed && w.mutant != anyWrite) {
				return answered{page: x}
			}
		}
		return answered{err: fs.ErrNotExist}
	})
	return a.page.issued, a.page.word, a.err
}

// Changed implements static.Memory.
func (p *port) Changed(id, nonce string) bool {
	return p.look(func(w *files) answered {
		for _, x := range w.pages {
			if x.id == id && x.nonce == nonce && !x.gone {
				return answered{yes: x.changed && w.mutant != anyWrite}
			}
		}
		return answered{}
	}).yes
}

// A memory is the port as a static.Memory.
type memory struct{ *port }

// Remove implements static.Memory.
func (m memory) Remove(id, nonce string) error {
	return m.ask(func(w *files, _ int) answered {
		for n := range w.pages {
			if x := &w.pages[n]; x.id == id && x.nonce == nonce {
				x.gone = true
			}
		}
		return answered{}
	}).err
}

// config is the same for all Stores.
func (p *port) config() static.Config {
	return static.Config{
		Dir: "/", Workers: []uint64{1}, Fingerprint: "explored", RunAhead: runAhead * time.Millisecond,
		Now: func() int64 {
			return p.look(func(w *files) answered { return answered{now: w.clock(w.daemons[p.i])} }).now
		},
		Clocks: func() static.Clocks {
			return p.look(func(w *files) answered { return answered{clocks: w.clocks()} }).clocks
		},
		Machine:    "explored",
		Share:      p.w.shares,
		Disk:       p,
		Memory:     memory{p},
		Issued:     fileLayout.Issued,
		First:      fileLayout.First,
		Background: func(f func()) { p.later = append(p.later, f) },
		Nonce: func() string {
			return p.look(func(w *files) answered {
				w.nonces++
				if w.mutant == unrenewed {
					return answered{text: "nonce"}
				}
				return answered{text: nonceNames[w.nonces%len(nonceNames)]}
			}).text
		},
	}
}

// An impatient context ends as soon as somebody waits for it.
type impatient struct {
	context.Context
	asked bool
}

func (c *impatient) Done() <-chan struct{} {
	c.asked = true
	return ended
}

func (c *impatient) Err() error {
	if c.asked {
		return context.DeadlineExceeded
	}
	return nil
}

var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()
