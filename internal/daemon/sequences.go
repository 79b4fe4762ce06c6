package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// sequences is what the sequences of a daemon share: their store, and the keeper that reserves blocks
// there.
type sequences struct {
	store  stores.CounterStore // nil = there is none; whyNot says why
	later  *laterStore         // what store is
	whyNot error
	keeper *counter.Keeper
	stop   context.CancelFunc // of the keeper; nil = it does not run
	ended  chan error         // its result

	election *election // nil = the store elects nobody
}

// defineTimeout is how long the daemon waits at the start until a sequence is recorded.
const defineTimeout = 30 * time.Second

func (c *Config) checkSequence(def kinds.Definition) error {
	if c.Counters.Nowhere() {
		return stores.ErrNoPlace
	}
	return c.Counters.CheckDefinition(def)
}

// openCounters opens the store of sequences and declares what is recorded there: a name that somebody
// has created must not stand for the default kind. If nobody has named the directory, an unusable one
// is an error only for those who declare a sequence.
func (d *Daemon) openCounters() error {
	q := &d.sequences
	if q.whyNot = d.c.checkSequence(kinds.Definition{}); q.whyNot != nil {
		return nil
	}
	records, err := q.open(d)
	if errors.Is(err, counter.ErrUnavailable) {
		d.waitForCounters(err)
		return nil
	}
	if err != nil && d.c.Counters.DirByDefault {
		d.c.Log.Warn("sequences cannot be recorded in the state directory by default: name another one with -state-dir", "error", err)
		q.whyNot = err
		return nil
	}
	if err != nil {
		return err
	}
	given := map[string]kinds.Definition{}
	all, _, _ := d.c.definitions(d.c.secrets.generators, nil)
	for _, def := range all {
		given[def.Name] = def
	}
	var others []counter.Record
	var errs []error
	for _, r := range records {
		switch def, ok := given[r.Name]; {
		case !ok:
			others = append(others, r)
		case def.Kind != kinds.Sequence:
			errs = append(errs, &stores.DifferentError{Recorded: r.Definition, Given: def})
		default: // it is declared next, and compared with the record
		}
	}
	return errors.Join(append(errs, d.declareRecorded(others))...)
}

// learnSequences declares sequences that somebody has created while the daemon runs.
func (d *Daemon) learnSequences(records []counter.Record) {
	d.declaring.Lock() // a reload may wait for the disk
	defer d.declaring.Unlock()
	if err := d.declareRecorded(records); err != nil {
		d.c.Log.Error("a sequence that was created is not served", "error", err)
	}
}

// declareRecorded declares those records whose names are not served yet.
func (d *Daemon) declareRecorded(records []counter.Record) error {
	served := d.served()
	var opened []issuer.Declared
	var errs []error
	for _, r := range records {
		if err := kinds.CheckName(r.Name); err != nil { // in Leaf's table; nobody can ask for it
			d.c.Log.Warn("a sequence in the counter store is not served", "error", err)
			continue
		}
		def := stores.Declared(r.Definition)
		if other, ok := served[r.Name]; ok && other.Kind == kinds.Sequence {
			continue
		}
		err := hasRoom(served, def)
		if err == nil {
			var k issuer.Kind
			if k, err = d.keepSequence(r, 0); err == nil {
				opened = append(opened, issuer.Declared{Definition: def, From: k})
				served[r.Name] = def
				d.c.Log.Info("generator", "definition", def.String(), "from", "the counter store")
			}
		}
		errs = append(errs, err)
	}
	d.catalog.Declare(opened)
	return errors.Join(errs...)
}

// hasRoom returns why a sequence cannot be served beside what is, or nil.
func hasRoom(served map[string]kinds.Definition, def kinds.Definition) error {
	other, ok := served[def.Name]
	switch {
	case ok && other.Kind != kinds.Sequence:
		return fmt.Errorf("%q: the name is served as %q", def, other)
	case ok: // whoever declares it compares
	case len(served) >= kinds.MaxNames:
		return fmt.Errorf("%q: %d names are served already", def, kinds.MaxNames)
	}
	return nil
}

// openSequence records a sequence, unless it is recorded already, and makes what issues its values.
func (d *Daemon) openSequence(def kinds.Definition) (issuer.Kind, error) {
	q := &d.sequences
	if q.store == nil {
		return nil, q.whyNot
	}
	if q.later.waits() {
		return d.openLater(def)
	}
	ctx, cancel := context.WithTimeout(context.Background(), defineTimeout)
	defer cancel()
	r, err := q.store.Define(ctx, stores.Recorded(def))
	if errors.Is(err, counter.ErrUnavailable) {
		d.c.Log.Warn("a sequence is recorded once the counter store takes writes", "sequence", def.Name, "error", err)
		return d.openLater(def)
	}
	if err != nil {
		return nil, err
	}
	if err := stores.Compare(def, r); err != nil {
		return nil, err
	}
	return d.keepSequence(r, def.Batch)
}

// keepSequence makes what issues the values of a record. batch, if it is not 0, replaces the record's.
func (d *Daemon) keepSequence(r counter.Record, batch uint64) (issuer.Kind, error) {
	keeper, name := d.sequences.keeper, r.Name
	if e := d.sequences.election; e != nil && r.Strict {
		return e.add(r, batch), nil
	}
	s := issuer.NewSequence(issuer.SequenceConfig{
		Definition: r.Definition, MaxWait: d.c.MaxWait, Wake: d.wakeAll,
		Status: func() counter.Status { s, _ := keeper.Status(name); return s },
		Ring:   func() { keeper.Ring(name) },
	})
	if err := keeper.Add(r, s, batch, nil); err != nil {
		return nil, err
	}
	return sequence{s, name, keeper}, nil
}

// A sequence is a Kind that can be taken back before anybody asks it: Close is only called then, and
// after the keeper has ended.
type sequence struct {
	*issuer.Sequence
	name   string
	keeper *counter.Keeper
}

func (s sequence) Close() error {
	s.keeper.Drop(s.name)
	return nil
}

// open opens the store and reads what is recorded there.
func (q *sequences) open(d *Daemon) ([]counter.Record, error) {
	settings := d.c.Counters
	settings.AnyDisk, settings.Log = d.c.AnyDisk, d.c.Log
	store, err := settings.Open()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), defineTimeout)
	defer cancel()
	records, err := store.List(ctx)
	if err != nil && !errors.Is(err, counter.ErrUnavailable) {
		return nil, errors.Join(err, store.Close())
	}
	q.later = newLaterStore(store, d.c.Log)
	q.store = q.later
	if elector, ok := store.(stores.Elector); ok {
		q.election = d.newElection(elector)
	}
	q.keeper = counter.NewKeeper(counter.Config{Store: q.store, Log: d.c.Log, Changed: func(list []counter.Record) { go d.learnSequences(list) }})
	return records, err
}

// keep runs the keeper until giveBackSequences.
func (q *sequences) keep() {
	if q.store == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.stop, q.ended = cancel, make(chan error, 1)
	go func() { q.ended <- q.keeper.Run(ctx) }()
}

// handOver lets other daemons lead those sequences that one daemon at a time issues.
func (q *sequences) handOver() {
	if q.election != nil {
		q.election.handOver()
	}
}

// giveBackSequences stops all sequences for good. What they have not issued goes back to the store, so
// that no gap is left.
func (d *Daemon) giveBackSequences() {
	q := &d.sequences
	if q.store == nil {
		return
	}
	if q.election != nil {
		q.election.leave()
	}
	if q.stop != nil {
		q.stop()
		if err := <-q.ended; err != nil {
			d.c.Log.Warn("values of sequences are lost: they were not given back", "error", err)
		}
	}
	if err := q.store.Close(); err != nil {
		d.c.Log.Warn("the counter store was not closed", "error", err)
	}
}
