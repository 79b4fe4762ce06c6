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
	// NextPoll returns how long to wait before Changes is asked again; nil = a second.
	NextPoll func() time.Duration
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
	Left     uint64  // values that were not granted, as far as this daemon knows
	DaysLeft float64 // how long those last at the rate of the last hour; +Inf = for ever
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
	return Status{Block: m.Block(), Left: m.Remaining(), DaysLeft: m.DaysLeft(time.Now())}, true
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
	r := &run{Keeper: k, done: make(chan *line), returned: make(chan []error), deaf: make(chan struct{})}
	go r.listen(ctx)
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
		}
	}
}

// A run is what only Run's goroutine uses.
type run struct {
	*Keeper
	calls    int           // under way
	done     chan *line    // whose Reserve has ended
	rests    []rest        // to be given back
	returned chan []error  // what became of some of them; of an error the values are lost
	deaf     chan struct{} // closed when listen has returned; then nil
}

// A rest is what is left of a line that is sealed.
type rest struct {
	*line
	Rest
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

// listen asks now and then whether an operator has changed anything, until ctx ends. Only what is news to a line wakes
// Run.
func (r *run) listen(ctx context.Context) {
	defer close(r.deaf)
	next := func() time.Duration { return pollEvery }
	if r.c.NextPoll != nil {
		next = r.c.NextPoll
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	since, failed := "", false // see Store.Changes
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		before := since
		since, failed = r.poll(ctx, before, failed)
		if since != before {
			timer.Reset(learntPoll)
		} else {
			timer.Reset(next())
		}
	}
}

// poll asks once. failed says that the last question had no answer.
func (k *Keeper) poll(ctx context.Context, since string, failed bool) (now string, fails bool) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	granted := k.granted()
	now, records, err := k.c.Store.Changes(call, since)
	if err != nil {
		if !failed && !errors.Is(err, context.Canceled) {
			k.c.Log.Warn("the counter store does not say whether sequences were raised or retired", "error", err)
		}
		return since, true
	}
	if failed {
		k.c.Log.Info("the counter store answers again")
	}
	if ctx.Err() == nil {
		k.learn(records, granted)
	}
	return now, false
}

// granted returns the largest value that each line was granted; 0 = none.
func (k *Keeper) granted() map[*line]uint64 {
	k.mu.Lock()
	lines := slices.Collect(maps.Values(k.lines))
	k.mu.Unlock()
	granted := make(map[*line]uint64, len(lines))
	for _, l := range lines {
		l.mu.Lock()
		granted[l] = l.machine.last.Hi
		l.mu.Unlock()
	}
	return granted
}

// learn tells the Machines what their records say. A record was set back if a value that was granted
// before it was read (by granted) is free in it. Then another daemon may be granted what is at hand here, so none of
// that is issued.
func (k *Keeper) learn(records []Record, before map[*line]uint64) {
	for _, record := range records {
		k.mu.Lock()
		l := k.lines[record.Name]
		k.mu.Unlock()
		if l == nil {
			continue
		}
		floor := uint64(0)
		if granted := before[l]; record.Readable() && record.Next <= granted {
			k.c.Log.Warn("the record of a sequence was set back: the values at hand are dropped", "sequence", record.Name,
				"free", record.Next, "granted", granted)
			floor = granted + 1
		}
		l.mu.Lock()
		l.machine.Learn(record)
		l.machine.drop(floor)
		l.mu.Unlock()
		k.Ring(record.Name)
	}
	if len(records) > 0 && k.c.Changed != nil {
		k.c.Changed(records)
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
		case <-r.deaf:
			r.deaf = nil
		}
	}
	for r.calls > 0 || r.deaf != nil {
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
