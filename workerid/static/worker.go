package static

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A worker is one worker id's file.
//
// Do not confuse two numbers. The high-water mark is recorded and may be half a minute ahead, or three
// minutes beside a shared one: a goroutine moves it on while ids are issued. The window ends earlier: it is
// lengthened only after a check of the lock, and never by more than near beyond that moment. So if an
// operator tampers with the files and a process loses its lock without knowing, it issues nothing further
// than near beyond the last moment at which it had the lock.
type worker struct {
	c    *Config
	id   uint64
	path string
	near int64 // ms that a window reaches beyond the present, see Reserve

	shared *sharedMark // of all workers of the Store; nil if there is none

	// Only the goroutine that has put a token into atDisk calls the disk for anything slow, and uses
	// these fields.
	atDisk  chan struct{}
	claim   io.Closer // nil without a claim
	state   *stateFile
	fresh   bool    // what others have issued may be recorded nowhere: there was no file, say, or a lease was lost
	above   int64   // no earlier run can issue above it
	page    Page    // this run's, if state.record.Run.Page is not empty
	found   *record // what take has read; nil if there was no file
	last    run     // the one that was found last, whose page goes before this one is recorded
	reserve int64   // ms that the mark is ahead of the clock, or the shared one
	memory  Memory  // nil where it is of no use
	shares  bool    // this run goes by the shared mark too
	// locks kept open though not in use: while the record names one that was deleted, or while ids
	// may be issued from a window that was lost
	retired []File

	mu      sync.Mutex // guards what follows; not held while the disk is asked for anything
	lock    File       // open while this process has the file
	file    File       // the state file that it has recorded itself in
	guard   guard
	holder  workerid.Grant
	held    bool
	granted *atomic.Uint64  // the word for the generator of holder's window; nil if there is none
	using   run             // the page that this is on; zero if nothing is held
	lost    bool            // the last lease was lost: its generator may still issue,
	had     int64           // and never above this
	mark    mark            // this file's
	renew   bool            // the record is to be written though its mark is far enough
	seen    durable.Version // the directory's when sees was true last
	closed  bool            // Close could not wait for it
}

var errHeld = errors.New("static: held")

func newWorker(c *Config, id uint64, shared *sharedMark) *worker {
	return &worker{c: c, id: id, shared: shared, path: statePath(c.Dir, id), state: &stateFile{},
		near: Reserve(c.RunAhead, c.Tick).Milliseconds(), atDisk: make(chan struct{}, 1)}
}

func (w *worker) log() *slog.Logger { return w.c.Log.With("worker_id", w.id, "file", w.path) }

// enter waits until no other goroutine uses the disk. The error is ctx's.
func (w *worker) enter(ctx context.Context) error {
	select {
	case w.atDisk <- struct{}{}:
		return nil
	default:
	}
	select {
	case w.atDisk <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("static: worker id %d: the disk of %s does not answer: %w", w.id, w.path, ctx.Err())
	}
}

// leave lets the next goroutine use the disk; after Close there is none.
func (w *worker) leave() {
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		_ = w.drop()
	}
	<-w.atDisk
}

func (w *worker) close(ctx context.Context) error {
	if err := w.enter(ctx); err != nil {
		w.mu.Lock()
		w.closed = true
		w.mu.Unlock()
		return err
	}
	defer w.leave()
	return w.drop()
}

func (w *worker) word(lo int64) *atomic.Uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder.Lo != lo {
		return nil
	}
	return w.granted
}

func (w *worker) acquire(ctx context.Context, owner string) (workerid.Grant, error) {
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	if held {
		return workerid.Grant{}, errHeld
	}
	if err := w.enter(ctx); err != nil {
		return workerid.Grant{}, err
	}
	defer w.leave()
	w.mu.Lock()
	again := w.lost
	w.mu.Unlock()
	if !again && w.hasLock() {
		same, err := w.unchanged()
		if err != nil {
			return workerid.Grant{}, err
		}
		again = !same
	}
	if again || !w.hasLock() { // it was given up, or deleted since Open: another process may have used the file in between
		if err := errors.Join(w.lose(), w.take()); err != nil {
			return workerid.Grant{}, err
		}
	}
	now, clocks := w.c.Now(), w.c.Clocks()
	if err := w.check(clocks, now); err != nil {
		return workerid.Grant{}, err
	}
	if w.fresh {
		w.above = max(w.above, now+w.near)
	}
	w.share(now)
	w.makePage()
	target, _ := w.ahead()
	mark := max(now+target, w.above)
	if err := w.write(mark, clocks, w.state.create); err != nil {
		return workerid.Grant{}, err
	}
	now = w.c.Now()
	if !w.sees() { // a lock that was moved away may be back after another process had its own
		return workerid.Grant{}, fmt.Errorf("static: worker id %d: %s or its lock was deleted or replaced: %w", w.id, w.path,
			ErrInUse)
	}
	w.mu.Lock()
	w.mark.highWater = mark
	limit, _ := w.limit()
	w.mu.Unlock()
	g := workerid.Grant{Worker: w.id, Owner: owner, Lo: w.above + 1, Hi: max(min(limit, now+w.near), w.above)}
	if err := w.handOut(g.Lo); err != nil {
		return workerid.Grant{}, errors.Join(err, w.lose())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.using, w.granted = w.state.record.Run, w.page.Word
	w.fresh, w.lost, w.held = false, false, true
	w.holder = g
	return g, nil
}

// share lets this run go by the shared mark, where a restart does not have to wait for marks. If that is not to be had
// now, the run goes by its own for good.
func (w *worker) share(now int64) {
	run := &w.state.record.Run
	if w.shared != nil && w.reserve > w.near && run.Page == "" && !w.shares && w.shared.reach(now, w.above) {
		run.Nonce, w.shares = w.shared.series+"."+run.Nonce, true
	}
}

// ahead returns how far ahead of the clock the mark is moved, and when it is: if it is not further ahead than due.
func (w *worker) ahead() (target, due int64) {
	if w.shares && w.reserve > w.near {
		return w.reserve + far, w.reserve + nearer
	}
	return w.reserve, w.reserve - w.reserve/10
}

// limit returns up to where windows may reach, and the write that may change that: the one that is under way, or the
// last one. w.mu is held.
func (w *worker) limit() (int64, *push) {
	if w.shares {
		if highWater, pushing := w.shared.state(); highWater < w.mark.highWater {
			return highWater, pushing
		}
	}
	return w.mark.highWater, w.mark.pushing
}

// handOut writes the first position of a window into the page's word: if this process is killed before
// it has a generator, the next run finds that nothing was issued.
//
// The word is written only if it is 0. So it is no generator's: one that was lost with an earlier lease
// keeps its own word, sealed or not. And a word that says the first position is right, because Word
// gives it to every generator of the window, even after the lease was lost: none keeps its position
// elsewhere.
func (w *worker) handOut(lo int64) error {
	if w.page.Word == nil {
		return nil
	}
	first := uint64(handedOut)
	if w.c.First != nil {
		first = w.c.First(lo)
	}
	if !w.page.Word.CompareAndSwap(0, first) {
		return fmt.Errorf("static: worker id %d: the word of its new page is in use", w.id)
	}
	return nil
}

func (w *worker) check(c Clocks, now int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guard.check(c, now)
}

// write records a mark and the identity of this run. After that, locks that this run had before are useless.
func (w *worker) write(mark int64, c Clocks, how func(mark int64) error) error {
	w.mu.Lock()
	lock := w.lock
	w.state.record.Offset = w.guard.trusted
	w.mu.Unlock()
	w.state.record.Boot, w.state.record.Reserve, w.state.record.Run.Lock = c.BootID, w.reserve, lock.ID()
	w.state.Lock = lock.ID()
	err := how(mark)
	w.mu.Lock()
	w.file = w.state.File()
	w.mu.Unlock()
	if err != nil {
		return fmt.Errorf("static: worker id %d: state file: %w", w.id, err)
	}
	for _, f := range w.retired {
		if f != lock {
			_ = f.Close()
		}
	}
	w.retired = nil
	return nil
}

// holds reports whether g is what was granted here, as far as its holder knows.
func (w *worker) holds(g workerid.Grant) bool { return w.held && g == w.holder }

func (w *worker) extend(ctx context.Context, g workerid.Grant, at look, waits func()) (hi int64, err error) {
	var waited *push
	for ; ; at = (look{now: w.c.Now()}) {
		if err := w.spoiled(g); err != nil {
			return 0, err
		}
		if !w.seesAt(at.names) {
			waits()
			if err := w.regain(ctx, g); err != nil {
				return 0, err
			}
			continue
		}
		hi, due, wait, err := w.lengthen(g, at.now, waited)
		for _, start := range due {
			w.c.Background(start)
		}
		if err != nil || wait == nil {
			return hi, err
		}
		if waited = wait; wait.isOver() {
			continue
		}
		waits()
		select {
		case <-wait.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("static: worker id %d: the disk of %s does not answer: %w", w.id, w.path, ctx.Err())
		}
	}
}

// lengthen makes the window as long as the marks allow, and keeps those ahead. Each of due begins a write that is
// due. wait is the write that must end before anything can be granted. now must have been read before the lock was
// checked.
func (w *worker) lengthen(g workerid.Grant, now int64, waited *push) (hi int64, due []func(), wait *push, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.holds(g) {
		return 0, nil, nil, workerid.ErrLost
	}
	if waited == nil || waited.err == nil {
		due, err = w.pushes(now)
	} else {
		err = waited.err
	}
	limit, wait := w.limit()
	switch hi = max(g.Hi, min(limit, now+w.near)); {
	case hi > g.Hi:
		w.holder.Hi = hi
		return hi, due, nil, nil
	case now+w.near <= g.Hi: // the clock is behind
		return hi, due, nil, nil
	case err != nil:
		return 0, nil, nil, err
	}
	return 0, due, wait, nil
}

// pushes begins to move the marks ahead that are due.
func (w *worker) pushes(now int64) (due []func(), err error) {
	start, err := w.push(now)
	if start != nil {
		due = append(due, start)
	}
	if w.shares {
		start, e := w.shared.push(now, func(c Clocks) error { return w.guard.check(c, now) })
		if err = errors.Join(err, e); start != nil {
			due = append(due, start)
		}
	}
	return due, err
}

// push begins to move the mark ahead if it is due: without a shared one, when a tenth of the reserve is used up.
func (w *worker) push(now int64) (start func(), err error) {
	if !w.mark.pushing.isOver() {
		w.mark.stalled(now, w.log)
		return nil, nil
	}
	target, due := w.ahead()
	mark := max(now+target, w.mark.highWater)
	if ahead := w.mark.highWater - now; !w.renew && ahead >= w.near && ahead > due {
		return nil, nil
	}
	c := w.c.Clocks()
	if err := w.guard.check(c, now); err != nil {
		return nil, err
	}
	select {
	case w.atDisk <- struct{}{}:
	default:
		return nil, fmt.Errorf("static: worker id %d: %s is being given up", w.id, w.path)
	}
	p, before := w.mark.begin(mark, now)
	w.renew = false
	return func() {
		err := w.write(mark, c, w.state.update)
		w.mu.Lock()
		w.mark.pushed(p, before, err, w.c, w.log())
		w.mu.Unlock()
		w.leave()
		close(p.done)
	}, nil
}

func (w *worker) release(ctx context.Context, g workerid.Grant, last int64) error {
	if err := w.enter(ctx); err != nil {
		return err
	}
	defer w.leave()
	w.mu.Lock()
	holds := w.holds(g)
	w.mu.Unlock()
	switch {
	case !holds:
		return workerid.ErrLost
	case last < g.Lo-1 || last > g.Hi:
		return fmt.Errorf("static: worker id %d released at %d, outside of its window %d..%d", w.id, last, g.Lo, g.Hi)
	}
	if err := w.spoiled(g); err != nil { // then last may be too low
		return err
	}
	if !w.sees() {
		if err := w.recognise(); err != nil {
			return err
		}
	}
	w.state.record.Run.Stopped = true
	if err := w.write(last, w.c.Clocks(), w.state.update); err != nil {
		w.state.record.Run.Stopped = false
		return err
	}
	return w.drop()
}

func lockPath(path string) string { return strings.TrimSuffix(path, ".state") + ".lock" }

// lockFile locks the file beside a state file: the state file itself is replaced at each start.
func lockFile(d Disk, path string) (File, error) {
	f, err := d.Open(lockPath(path), true)
	if err != nil {
		return nil, err
	}
	if err := f.Lock(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
