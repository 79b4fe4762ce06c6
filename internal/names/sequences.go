package names

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
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

	faulty map[string]bool // names whose records cannot be used, as was logged last. With declaring held

	election *election // nil = the store holds no elections
	time     sampledTime

	refused atomic.Uint64 // requests, of all of them
}

// defineTimeout is how long the daemon waits at the start until a sequence is recorded.
const defineTimeout = 30 * time.Second

// openCounters opens the store of sequences and declares what is recorded there: a name that an operator
// has created must not stand for the default kind. If no setting names the directory and worker ids are
// recorded elsewhere, an unusable one is an error only for those who declare a sequence.
func (n *Names) openCounters(ctx context.Context) error {
	q := &n.sequences
	if q.whyNot = n.c.checkSequence(kinds.Definition{}); q.whyNot != nil {
		return nil
	}
	records, err := q.open(ctx, n)
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if errors.Is(err, counter.ErrUnavailable) {
		if n.given.Succeeds { // the other has blocks at hand, and knows the names
			return fmt.Errorf("the counter store does not answer: %w", err)
		}
		n.waitForCounters(err)
		return nil
	}
	if err != nil && n.c.Counters.DirByDefault && n.c.Own.NoDirectory {
		n.given.Log.Warn("sequences cannot be recorded in the state directory by default: name another one with -state-dir",
			"error", err)
		q.whyNot = err
		return nil
	}
	if err != nil {
		return err
	}
	given := map[string]kinds.Definition{}
	all, _, _ := n.c.definitions(n.c.text, nil)
	for _, def := range all {
		given[def.Name] = def
	}
	n.noticeNone(records, all)
	var others []counter.Record
	var errs []error
	for _, r := range records {
		switch def, ok := given[r.Name]; {
		case !ok:
			others = append(others, r)
		case !def.Recorded() && !r.Readable():
			errs = append(errs, fmt.Errorf("%q: a sequence of that name is recorded: %w", def, r.Fault))
		case !def.Recorded():
			errs = append(errs, &kinds.DifferentError{Recorded: r.Definition, Given: def})
		default: // it is declared next, and compared with the record
		}
	}
	n.sequences.judge(records, n.given.Log)
	return errors.Join(append(errs, n.declareRecorded(others))...)
}

// noticeNone warns of a store that was named, and has no sequence: it may have been wiped. Daemons that declare one
// find that out by themselves.
func (n *Names) noticeNone(records []counter.Record, declared []kinds.Definition) {
	kept := len(records) > 0 || slices.ContainsFunc(declared, kinds.Definition.Recorded)
	if !kept && n.c.Counters.URL != "" && !n.c.RefuseUnknown {
		n.given.Log.Warn("the counter store has no sequence: names that are not declared here are ids of the default kind",
			"store", n.c.Counters.Where())
	}
}

// judge says which records cannot be used, when that changes.
func (q *sequences) judge(records []counter.Record, log *slog.Logger) {
	faulty := map[string]bool{}
	var names []string
	var first error
	for _, r := range records {
		if r.Fault != nil {
			faulty[r.Name] = true
			names, first = append(names, r.Name), cmp.Or(first, r.Fault)
		}
	}
	switch {
	case maps.Equal(faulty, q.faulty):
	case len(faulty) == 0:
		log.Info("all records of sequences can be used again")
	default:
		const few = 10 // of many that a promotion has made foreign
		log.Error("the records of sequences cannot be used: they are refused until an operator raises them",
			"count", len(names), "sequences", names[:min(few, len(names))], "error", first)
	}
	q.faulty = faulty
}

// learnSequences declares sequences that were created while the daemon runs.
func (n *Names) learnSequences(records []counter.Record) {
	n.declaring.Lock() // a reload may wait for the disk
	defer n.declaring.Unlock()
	n.sequences.judge(records, n.given.Log)
	if err := n.declareRecorded(records); err != nil {
		n.given.Log.Error("a sequence that was created is not served", "error", err)
	}
}

// declareRecorded declares those records whose names are not served yet.
func (n *Names) declareRecorded(records []counter.Record) error {
	served := n.served()
	var opened []issuer.Declared
	var errs []error
	for _, r := range records {
		if err := kinds.CheckName(r.Name); err != nil { // in Leaf's table; no client can ask for it
			n.given.Log.Warn("a sequence in the counter store is not served", "error", err)
			continue
		}
		def := kinds.Declared(r.Definition)
		other, ok := served[r.Name]
		revived := ok && other.Recorded() && other.Step == 0 && r.Readable()
		if ok && other.Recorded() && !revived {
			if q := n.sequences.election; q != nil {
				q.judge(r)
			}
			continue
		}
		err := hasRoom(served, def)
		if err == nil {
			var k issuer.Kind
			if k, err = n.keepRecorded(r); err == nil {
				opened = append(opened, issuer.Declared{Definition: def, From: k})
				served[r.Name] = def
				n.given.Log.Info("name", "definition", def.String(), "from", "the counter store")
			}
		}
		errs = append(errs, err)
	}
	n.Catalog.Declare(opened)
	return errors.Join(errs...)
}

// hasRoom returns why a sequence cannot be served beside what is, or nil.
func hasRoom(served map[string]kinds.Definition, def kinds.Definition) error {
	other, ok := served[def.Name]
	switch {
	case ok && !other.Recorded():
		return fmt.Errorf("%q: the name is served as %q", def, other)
	case ok: // Declare compares
	case len(served) >= kinds.MaxNames:
		return fmt.Errorf("%q: %d names are served already", def, kinds.MaxNames)
	}
	return nil
}

// openSequence records a sequence, unless it is recorded already, and makes what issues its values.
func (n *Names) openSequence(ctx context.Context, def kinds.Definition) (issuer.Kind, error) {
	q := &n.sequences
	if q.store == nil {
		return nil, q.whyNot
	}
	if q.later.waits() {
		return n.openLater(def, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, defineTimeout)
	defer cancel()
	r, err := q.store.Define(ctx, def.Definition)
	switch {
	case errors.Is(err, counter.ErrUnavailable):
		n.given.Log.Warn("a sequence is recorded once the counter store takes writes", "sequence", def.Name, "error", err)
		return n.openLater(def, nil)
	case errors.Is(err, counter.ErrDamaged), errors.Is(err, counter.ErrUnusable):
		return n.openLater(def, err)
	case errors.Is(err, counter.ErrForeign) && r.Readable():
		r.Fault = err
	case err != nil && q.faulty[def.Name]: // a record is there that cannot be read, as that of another user
		return n.openLater(def, fmt.Errorf("%w: %w", counter.ErrUnusable, err))
	case err != nil:
		return nil, err
	}
	if err := kinds.Compare(def, r); err != nil {
		return nil, err
	}
	return n.keepSequence(r, def.Batch)
}

// keepRecorded makes what issues the values of a record that only the store knows. Of one that cannot be read
// it issues nothing: not even the definition is known, and the name must not stand for the default kind.
func (n *Names) keepRecorded(r counter.Record) (issuer.Kind, error) {
	why := n.c.checkNode(kinds.Declared(r.Definition))
	switch {
	case !r.Readable():
		why = r.Fault
	case why == nil:
		return n.keepSequence(r, 0)
	default:
		n.given.Log.Error("timestamps are refused", "name", r.Name, "error", why)
	}
	if !counter.Certain(why) { // a file that another user owns, for example: to wait for a block is useless
		why = fmt.Errorf("%w: %w", counter.ErrUnusable, why)
	}
	s := issuer.NewSequence(issuer.SequenceConfig{
		Definition: counter.Sequence(r.Name), Wake: func() {}, Ring: func() {},
		Refused: &n.sequences.refused,
	})
	s.Refuse(why)
	return s, nil
}

// keepSequence makes what issues the values of a record. batch, if it is not 0, replaces the record's.
func (n *Names) keepSequence(r counter.Record, batch uint64) (issuer.Kind, error) {
	keeper, name := n.sequences.keeper, r.Name
	switch e := n.sequences.election; {
	case e != nil && r.Strict:
		return e.add(r, batch), nil
	case r.Timed():
		return n.keepTimestamps(r)
	}
	status, ring := keeper.Of(name)
	s := issuer.NewSequence(issuer.SequenceConfig{
		Definition: r.Definition, MaxWait: n.c.MaxWait, Wake: n.Wake, Status: status, Ring: ring,
		Refused: &n.sequences.refused,
	})
	if err := keeper.Add(r, s, batch, nil); err != nil {
		return nil, err
	}
	return sequence{s, kept{name, keeper}}, nil
}

// A sequence is a Kind that can be taken back before a client asks it: Close is only called then, and
// after the keeper has ended.
type sequence struct {
	*issuer.Sequence
	kept
}

type kept struct {
	name   string
	keeper *counter.Keeper
}

func (k kept) Close() error {
	k.keeper.Drop(k.name)
	return nil
}

// open opens the store and reads what is recorded there.
func (q *sequences) open(ctx context.Context, n *Names) ([]counter.Record, error) {
	store, err := n.openStore()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, defineTimeout)
	defer cancel()
	records, err := store.List(ctx)
	if err != nil && !errors.Is(err, counter.ErrUnavailable) {
		return nil, errors.Join(err, store.Close())
	}
	q.later = newLaterStore(store, n.given.Log)
	q.store = q.later
	if elector, ok := store.(stores.Elector); ok {
		q.election = n.newElection(elector)
	}
	q.keeper = counter.NewKeeper(counter.Config{
		Store: q.store, Log: n.given.Log, NextPoll: n.given.NextSecond,
		Changed: func(list []counter.Record) { go n.learnSequences(list) },
	})
	return records, err
}

// giveBackSequences stops all sequences for good. What they have not issued goes back to the store, so
// that no gap is left.
func (n *Names) giveBackSequences() {
	q := &n.sequences
	if q.store == nil {
		return
	}
	if q.election != nil {
		q.election.leave()
	}
	if q.time.stop != nil {
		q.time.stop()
	}
	if err := q.keeper.Stop(); err != nil {
		n.given.Log.Warn("values of sequences are lost: they were not given back", "error", err)
	}
	if err := q.store.Close(); err != nil {
		n.given.Log.Warn("the counter store was not closed", "error", err)
	}
}
