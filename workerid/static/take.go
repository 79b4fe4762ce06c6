package static

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// take locks the file for this process and reads it. It writes nothing.
func (w *worker) take() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("static: worker id %d: %w", w.id, err), w.lose())
		}
	}()
	if w.c.Claim {
		if w.claim, err = claim(claimName(w.c.Fingerprint, w.id)); err != nil {
			return err
		}
	}
	lock, err := w.takeLock()
	if err != nil {
		return err
	}
	clocks := w.c.Clocks()
	w.mu.Lock()
	w.lock, w.closed = lock, false
	lost, had := w.lost, w.had
	w.mu.Unlock()
	r, err := w.read()
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.guard.start(clocks, r)
	w.mu.Unlock()
	before := w.state.record.Run.Nonce
	w.found, w.state = r, newStateFile(w.c.Disk, w.path, w.c.Log, w.hasLock, w.succeed)
	w.page, w.above, w.shares = Page{}, 0, false
	w.fresh, w.reserve = r == nil || lost, w.near+stall.Milliseconds()
	this := run{Nonce: w.c.Nonce()}
	if w.memory = w.c.Memory; clocks.BootID == "" || lock.ID() == "" {
		w.memory = nil
	}
	if r != nil {
		w.state.record, w.last = *r, r.Run
		this.Forgets = r.Run.Forgets
		last := *r
		last.HighWater = reached(w.c.Disk, w.c.Dir, r)
		switch {
		case !lost:
			var certain bool
			w.above, certain, this.Forgets = w.lastIssued(&last, clocks, lock.ID())
			w.fresh = !certain
		case r.Run.Nonce == before: // nothing was recorded since
			w.above = had
		default:
			w.above = max(had, last.HighWater)
		}
	}
	w.above = max(w.above, w.c.Floor)
	if w.memory == nil || this.Forgets {
		w.reserve = w.near // a restart has to wait for it
	}
	w.state.record.Worker, w.state.record.Fingerprint, w.state.record.Machine = w.id, w.c.Fingerprint, w.c.Machine
	w.state.record.Boot, w.state.record.Reserve, w.state.record.Run = clocks.BootID, w.reserve, this
	return w.state.record.check()
}

// takeLock locks the file, or finds that this process still holds the lock from a lease that it lost.
func (w *worker) takeLock() (File, error) {
	for _, f := range w.retired {
		if f.Is(lockPath(w.path)) {
			return f, nil
		}
	}
	return lockFile(w.c.Disk, w.path)
}

// lastIssued returns up to where the run that wrote r has issued ids, and whether that is certain. It
// returns r's high-water mark unless the run's word can be trusted. For that, all of this must hold:
//
//   - The machine has not rebooted since. Otherwise a page may be older or newer than what the disk
//     has kept.
//   - The lock is the very file that the run held. Then the run is dead, because this process could
//     lock it. If an operator deleted the lock, this one is new; the run may only be paused, and
//     continue at any moment.
//   - The page is the very one that the run made, and only the run's generator has written to it.
//   - The page has the run's nonce. So no later run exists: it would have recorded its own nonce
//     before its first id.
//   - The word is a generator's, or no window was granted, and it is not below where the run began.
//
// If all of this holds and the word is above the mark, the record was put back to an earlier one.
//
// Without the word, certain reports that the run was stopped cleanly and that nothing tells otherwise:
// then its mark is exact. Else the record may have been put back, and later runs be recorded nowhere.
// They are dead or have no lock, so that by the same clock none of them issues from above near past
// the present, as if there were no file.
//
// forgets reports that pages do not outlive processes here, as in a container that is recreated: the
// page is missing though the rest holds. That is remembered until a page is found.
func (w *worker) lastIssued(r *record, c Clocks, lock string) (issued int64, certain, forgets bool) {
	sameBoot, sameLock := r.Boot == c.BootID, r.Run.Lock == lock
	if r.Run.Page == "" || w.memory == nil || !sameBoot || !sameLock {
		return r.HighWater, r.Run.Stopped && (sameLock || !sameBoot), r.Run.Forgets
	}
	log := w.log()
	start, word, err := w.memory.Find(r.Run.Page, r.Run.Nonce)
	if err != nil {
		if !r.Run.Forgets {
			log.Warn("memory that should outlive the process did not: from now on little is reserved, so that restarts are "+
				"quick, and a stalled disk stops ids sooner", "error", err)
		}
		return r.HighWater, r.Run.Stopped && r.Run.Forgets, true
	}
	switch {
	case word == 0:
		issued = start
	case word == handedOut:
		return r.HighWater, false, false
	default:
		issued = w.c.Issued(word)
	}
	if issued < start {
		log.Debug("the last run's word is not used", "says", issued, "from", start, "mark", r.HighWater)
		return r.HighWater, false, false
	}
	if issued > r.HighWater {
		log.Warn("the state file is older than the last ids: was it put back? Memory says how far they went", "ids", issued,
			"mark", r.HighWater)
	}
	return issued, true, false
}

// makePage makes this run's page, once. If it cannot, the reserve stays short.
func (w *worker) makePage() {
	r := &w.state.record.Run
	if r.Page != "" || w.memory == nil {
		return
	}
	page, err := w.memory.Make(r.Nonce, w.above)
	if err != nil {
		w.c.Log.Warn("no memory that outlives the process: a stalled disk stops ids after a second or two", "worker_id", w.id,
			"error", err)
		w.reserve = w.near
		return
	}
	w.page, r.Page = page, page.ID
}

// read returns the record, or nil if there is no file, and an error if this process must not
// continue from it.
func (w *worker) read() (*record, error) {
	r, damaged, err := readState(w.c.Disk, w.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, ErrDamaged) {
		return nil, fmt.Errorf("%s: %w: `katsubushi state reset` makes a new one", w.path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.path, err)
	}
	for _, what := range damaged {
		w.c.Log.Warn("state file: one copy is damaged, the other is used", "worker_id", w.id, "file", w.path, "damage", what)
	}
	switch {
	case r.Worker != w.id:
		return nil, fmt.Errorf("%s belongs to worker id %d", w.path, r.Worker)
	case r.Fingerprint != w.c.Fingerprint:
		return nil, fmt.Errorf("%s: %w: it was written for ids with %s, this daemon's have %s: use another directory, or "+
			"`katsubushi state reset`", w.path, workerid.ErrForeignPool, r.Fingerprint, w.c.Fingerprint)
	case r.Machine != "" && w.c.Machine != "" && r.Machine != w.c.Machine:
		return nil, fmt.Errorf("%s: %w (%s, this one is %s): if that one has stopped for good, `katsubushi state adopt` "+
			"takes it over", w.path, ErrOtherMachine, r.Machine, w.c.Machine)
	}
	return &r, nil
}
