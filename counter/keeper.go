package counter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config holds the settings of a Keeper.
type Config struct {
	Store Store
	Log   *slog.Logger
	// Changed is called with all records at the start, and after one was defined, raised or retired.
	// nil = not called.
	Changed func([]Record)
}

const (
	maxCalls    = 8                // calls of the Store at the same time
	callTimeout = 5 * time.Second  // of one call
	pollEvery   = time.Second      // between two questions whether an operator changed anything,
	learntPoll  = pollEvery / 100  // but after one that brought something: the next confirms it, see Admin.Behind
	stopTimeout = 10 * time.Second // for giving all blocks back
)

// A Keeper keeps the sequences of a daemon in values: it calls a Store for many Machines, with one
// goroutine, and a few more for calls that are under way. Any goroutine may call its methods.
type Keeper struct {
	c     Config
	rung  chan struct{}      // there may be something in queue
	end   context.CancelFunc // of what Start began; nil = nothing
	ended chan error         // its result

	mu    sync.Mutex
	lines map[string]*line
	all   map[*line]bool // also those that were dropped, until their values are given back
	queue []*line        // to look at, each once
}

// A line is one sequence.
type line struct {
	name    string
	store   Store
	given   chan struct{} // closed when it was dropped, and its values were given back or are lost
	queued  bool          // guarded by Keeper.mu
	dropped bool          // the same
	busy    bool          // a call is under way; only Run's goroutine uses it

	mu      sync.Mutex // taken before Keeper.mu, because an issuer rings while its Machine calls it
	machine *Machine
}

// NewKeeper makes a Keeper without sequences.
func NewKeeper(c Config) *Keeper {
	return &Keeper{c: c, rung: make(chan struct{}, 1), lines: map[string]*line{}, all: map[*line]bool{}}
}

// Add hands a sequence to the Keeper. r is what Define returned; batch, if it is not 0, replaces the
// record's. store is where its blocks come from, such as a Store within a term of leadership; nil =
// Config's. The Keeper calls the issuer until Run has returned or the sequence was dropped. Add
// returns an error if there is a sequence of that name.
func (k *Keeper) Add(r Record, to Issuer, batch uint64, store Store) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lines[r.Name] != nil {
		return fmt.Errorf("sequence %s is there already", r.Name)
	}
	if store == nil {
		store = k.c.Store
	}
	l := &line{name: r.Name, store: store, given: make(chan struct{}), machine: NewMachine(r, to, batch, k.c.Log)}
	k.lines[r.Name], k.all[l] = l, true
	return nil
}

// Drop takes a sequence away; one of that name may be added at once. Run seals it soon after and gives
// back what is left of its blocks. Then the channel is closed: nothing is issued of it any more. nil =
// there is no such sequence.
func (k *Keeper) Drop(name string) <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.lines[name]
	if l == nil {
		return nil
	}
	delete(k.lines, name)
	l.dropped = true
	k.enqueue(l)
	return l.given
}

// Ring makes the Keeper look at a sequence, whose issuer has crossed the watermark or has no value. It
// returns at once.
func (k *Keeper) Ring(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.lines[name]; l != nil {
		k.enqueue(l)
	}
}

// enqueue makes Run look at a line. The caller holds mu.
func (k *Keeper) enqueue(l *line) {
	if l.queued {
		return
	}
	l.queued = true
	k.queue = append(k.queue, l)
	select {
	case k.rung <- struct{}{}:
	default:
	}
}

// Status is what a Keeper knows of a sequence.
type Status struct {
	Block    uint64  // values in the newest block; 0 = there was none
	Rate     float64 // values a second, over the block before that
	Left     uint64  // values that were not granted, as far as this daemon knows
	DaysLeft float64 // how long those last at that rate; +Inf = for ever
}

// Status returns the figures of a sequence, or false if there is no such sequence.
func (k *Keeper) Status(name string) (Status, bool) {
	k.mu.Lock()
	l := k.lines[name]
	k.mu.Unlock()
	if l == nil {
		return Status{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.machine
	return Status{Block: m.Block(), Rate: m.rate, Left: m.Remaining(), DaysLeft: m.DaysLeft()}, true
}

// Of returns what an issuer needs to know of its sequence and to ask for: Status, which is zero while there is no such
// sequence, and Ring.
func (k *Keeper) Of(name string) (status func() Status, ring func()) {
	status = func() Status {
		s, _ := k.Status(name)
		return s
	}
	return status, func() { k.Ring(name) }
}

// Start lets the Keeper Run in a goroutine until Stop. Start and Stop are called one after the other.
func (k *Keeper) Start() {
	var ctx context.Context
	ctx, k.end = context.WithCancel(context.Background())
	k.ended = make(chan error, 1)
	go func() { k.ended <- k.Run(ctx) }()
}

// Stop ends Run, if Start was called, and returns what it returned.
func (k *Keeper) Stop() error {
	if k.end == nil {
		return nil
	}
	k.end()
	return <-k.ended
}

// Run keeps the sequences in values until ctx ends. Then it seals them all and gives back what is left
// of their blocks. The error says which values were not given back: they are lost.
func (k *Keeper) Run(ctx context.Context) error {
	r := &run{Keeper: k, done: make(chan *line), returned: make(chan []error), polled: make(chan polled)}
	poll := time.NewTimer(0)
	defer poll.Stop()
	for {
		r.start()
		select {
		case <-ctx.Done():
			return r.stop()
		case <-k.rung:
		case l := <-r.done:
			r.finish(l)
		case lost := <-r.returned:
			r.calls--
			for _, err := range lost {
				r.c.Log.Warn("values are lost: they were not given back", "error", err)
			}
		case <-poll.C:
			r.polling = true
			go r.poll(ctx)
		case p := <-r.polled:
			r.polling = false
			r.learn(p)
			if p.fresh {
				poll.Reset(learntPoll)
			} else {
				poll.Reset(pollEvery)
			}
		}
	}
}

// A run is what only Run's goroutine uses, and poll while it runs.
type run struct {
	*Keeper
	calls    int          // under way
	done     chan *line   // whose Reserve has ended
	rests    []rest       // to be given back
	returned chan []error // what became of some of them; of an error the values are lost
	polling  bool
	polled   chan polled
	since    string // see Store.Changes
	deaf     bool   // the last Changes failed
}

// A rest is what is left of a line that is sealed.
type rest struct {
	*line
	Rest
}

// A polled is what Changes told, and the largest value that each line was granted before.
type polled struct {
	fresh   bool // something was changed
	records []Record
	granted map[*line]uint64
}

// start starts the calls that queued lines need, as far as there is room.
func (r *run) start() {
	for r.calls < maxCalls {
		l := r.dequeue()
		if l == nil {
			break
		}
		if l.busy { // finish enqueues it again
			continue
		}
		if r.dropped(l) {
			r.seal(l)
		} else if n, span := r.need(l); n > 0 {
			l.busy = true
			r.calls++
			go func() {
				r.reserve(l, n, span)
				r.done <- l
			}()
		}
	}
	r.giveBack(context.Background())
}

func (r *run) dequeue() *line {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		r.queue = nil // the memory of a burst
		return nil
	}
	l := r.queue[0]
	r.queue = r.queue[1:]
	l.queued = false
	return l
}

// finish takes a line whose call has ended. There may be more to do: clients still wait, or it was
// dropped.
func (r *run) finish(l *line) {
	r.calls--
	l.busy = false
	r.mu.Lock()
	r.enqueue(l)
	r.mu.Unlock()
}

func (r *run) dropped(l *line) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return l.dropped
}

// need returns how many values a line needs now, or of timestamps which.
func (r *run) need(l *line) (n uint64, timed *Span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n = l.machine.Need(time.Now()); n > 0 {
		if s, ok := l.machine.Span(n); ok {
			timed = &s
		}
	}
	return n, timed
}

func (r *run) reserve(l *line, n uint64, timed *Span) {
	// Not Run's context: what a call grants that is cut off is lost.
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	b, err := reserve(ctx, l.store, l.name, n, timed)
	cancel()
	l.mu.Lock()
	wait := l.machine.Answer(time.Now(), b, err)
	l.mu.Unlock()
	if wait > 0 {
		time.AfterFunc(wait, func() { r.Ring(l.name) })
	}
}

// seal stops a line for good. What is left of its block is to be given back.
func (r *run) seal(l *line) {
	r.mu.Lock()
	there := r.all[l]
	delete(r.all, l)
	r.mu.Unlock()
	if !there { // it is sealed
		return
	}
	l.mu.Lock()
	b, next, ok := l.machine.Stop()
	l.mu.Unlock()
	if !ok {
		close(l.given)
		return
	}
	r.rests = append(r.rests, rest{l, Rest{l.name, b, next}})
}

// giveBack starts calls that give back what is left of sealed lines, as far as there is room: many lines of
// one Store in a call.
func (r *run) giveBack(ctx context.Context) {
	for r.calls < maxCalls && len(r.rests) > 0 {
		store, n := r.rests[0].store, 1
		for n < min(MaxRests, len(r.rests)) && r.rests[n].store == store {
			n++
		}
		some := r.rests[:n:n]
		r.rests = r.rests[n:]
		r.calls++
		go func() { r.returned <- giveBackBlocks(ctx, store, some) }()
	}
}

// giveBackBlocks calls the Store. ErrStale and ErrDeposed are no errors here: another daemon has reserved
// meanwhile, or may, or an operator has raised the sequence, and the values are a gap.
func giveBackBlocks(ctx context.Context, store Store, some []rest) (lost []error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var rests []Rest
	for _, r := range some {
		rests = append(rests, r.Rest)
	}
	for i, err := range store.ReturnAll(ctx, rests) {
		if err != nil && !errors.Is(err, ErrStale) && !errors.Is(err, ErrDeposed) {
			r := rests[i]
			lost = append(lost, fmt.Errorf("sequence %s, %d to %d: %w", r.Name, r.Next, r.Block.Hi, err))
		}
		close(some[i].given)
	}
	return lost
}

// poll asks whether an operator has changed anything.
func (r *run) poll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	granted := r.granted()
	now, records, err := r.c.Store.Changes(ctx, r.since)
	switch {
	case err == nil && r.deaf:
		r.c.Log.Info("the counter store answers again")
	case err != nil && !r.deaf && !errors.Is(err, context.Canceled):
		r.c.Log.Warn("the counter store does not say whether sequences were raised or retired", "error", err)
	}
	fresh := false
	if r.deaf = err != nil; err != nil {
		records = nil
	} else {
		fresh = now != r.since
		r.since = now
	}
	r.polled <- polled{fresh, records, granted}
}

// granted returns the largest value that each line was granted; 0 = none.
func (r *run) granted() map[*line]uint64 {
	r.mu.Lock()
	lines := slices.Collect(maps.Values(r.lines))
	r.mu.Unlock()
	granted := make(map[*line]uint64, len(lines))
	for _, l := range lines {
		l.mu.Lock()
		granted[l] = l.machine.last.Hi
		l.mu.Unlock()
	}
	return granted
}

// learn tells the Machines what their records say. A record was set back if a value that was granted
// before it was read is free in it. Then another daemon may be granted what is at hand here, so none of
// that is issued.
func (r *run) learn(p polled) {
	for _, record := range p.records {
		r.mu.Lock()
		l := r.lines[record.Name]
		r.mu.Unlock()
		if l == nil {
			continue
		}
		if granted := p.granted[l]; record.Readable() && record.Next <= granted {
			r.c.Log.Warn("the record of a sequence was set back: the values at hand are dropped", "sequence", record.Name,
				"free", record.Next, "granted", granted)
			record.Floor = max(record.Floor, granted+1)
		}
		l.mu.Lock()
		l.machine.Learn(record)
		l.mu.Unlock()
		r.Ring(record.Name)
	}
	if len(p.records) > 0 && r.c.Changed != nil {
		r.c.Changed(p.records)
	}
}

// stop waits for the calls under way, because what they grant can be given back too. Then it seals all
// sequences and gives their values back.
func (r *run) stop() error {
	var lost []error
	await := func() {
		select {
		case l := <-r.done:
			r.finish(l)
		case some := <-r.returned:
			r.calls--
			lost = append(lost, some...)
		case <-r.polled:
			r.polling = false
		}
	}
	for r.calls > 0 || r.polling {
		await()
	}
	r.mu.Lock()
	all := slices.SortedFunc(maps.Keys(r.all), func(a, b *line) int { return strings.Compare(a.name, b.name) })
	r.mu.Unlock()
	for _, l := range all {
		r.seal(l)
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	for r.giveBack(ctx); r.calls > 0; r.giveBack(ctx) {
		await()
	}
	return errors.Join(lost...)
}
