package names

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

// An election is a daemon's part in the election of those who lead the sequences with order=strict. It
// takes part from when it knows one of them and its ports are open, because a leader must be able to
// answer.
//
// A sequence has values only within a term. At its beginning the keeper gets the sequence, with a store
// that reserves within this term only. At its end the keeper seals it and gives back what is left. While
// another daemon leads, requests are redirected or forwarded there.
type election struct {
	of      *Names
	id      string // of this daemon; random
	store   stores.Elector
	forward forwarders
	runner  atomic.Pointer[leader.Runner] // nil = this daemon does not take part
	watched watched
	told    [leader.MaxGroups]atomic.Int64 // when complain logged last, of Names.moment

	mu      sync.Mutex // held while the standing of a sequence changes
	open    bool       // the ports are
	address string     // where the others reach them; "" = nowhere, so this daemon leads nothing
	over    bool       // it will not take part any more
	known   map[string]*strictSequence
	sharing map[string]int64                // revisions of the node keys of others with this address, by ID
	terms   [leader.MaxGroups]leader.Term   // that have not ended; Number 0 = none
	blocks  [leader.MaxGroups]counter.Store // of those: one for all sequences of a group, so one call gives many back
	ending  [leader.MaxGroups]bool          // of those
	stop    context.CancelFunc              // of the runner
	ended   chan error                      // its result
	others  sync.WaitGroup                  // goroutines beside it
}

// A strictSequence is one that this daemon leads at times.
type strictSequence struct {
	*issuer.Strict
	e      *election
	record counter.Record
	batch  uint64 // see counter.Keeper.Add
	group  int
}

// newElection makes the election of a store; takePart begins it.
func (n *Names) newElection(store stores.Elector) *election {
	var id [20]byte // a node of a Redis cluster has as many
	rand.Read(id[:])
	e := &election{
		of: n, id: hex.EncodeToString(id[:]), store: store,
		known: map[string]*strictSequence{}, sharing: map[string]int64{},
	}
	for g := range e.forward {
		e.forward[g] = n.given.Forwarder()
	}
	return e
}

// opened says that the ports are open, and where the others reach them.
func (e *election) opened(address string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open, e.address = true, address
	e.takePart()
}

// takePart starts the runner when it is time. The caller holds mu.
func (e *election) takePart() {
	if !e.open || e.over || len(e.known) == 0 || e.runner.Load() != nil {
		return
	}
	r := leader.NewRunner(leader.Config{
		Me: leader.Node{ID: e.id, Redis: e.address}, Board: e.store, Clock: e.of.boot, Log: e.of.given.Log,
		Begin: e.begin, End: e.end, Changed: func(*leader.View) { e.redirect() },
		Wall: func() int64 { return time.Now().UnixNano() },
	})
	for _, s := range e.known {
		if s.record.Timed() {
			r.SetTimed(s.group)
		}
	}
	var ctx context.Context
	ctx, e.stop = context.WithCancel(context.Background())
	e.ended = make(chan error, 1)
	e.runner.Store(r)
	e.of.given.Log.Info("takes part in the election of leaders for sequences", "address", e.address, "id", e.id)
	if e.address == "" {
		level := slog.LevelWarn
		if e.of.given.Unreachable { // it listens, so it was meant to lead
			level = slog.LevelError
		}
		e.of.given.Log.Log(ctx, level,
			"this daemon leads no sequence, because the others cannot reach it: give -redis-port or -advertise")
		r.Stop(ctx) // before it leads anything, so this does not wait
	}
	go func() { e.ended <- r.Run(ctx) }()
	e.others.Go(func() { e.meetDemands(ctx, r) })
	e.others.Go(func() { e.watch(ctx) })
}

// replaced returns a leader.ErrReplaced while the election stands still because of it, or nil.
func (e *election) replaced() error {
	if r := e.runner.Load(); r != nil {
		return r.Replaced()
	}
	return nil
}

// add makes what issues the values of a sequence.
func (e *election) add(r counter.Record, batch uint64) issuer.Kind {
	keeper, name := e.of.sequences.keeper, r.Name
	group := leader.GroupOf(name)
	if r.Timed() {
		group = leader.TimedGroupOf(name)
	}
	status, ring := keeper.Of(name)
	s := &strictSequence{e: e, record: r, batch: batch, group: group, Strict: issuer.NewStrict(issuer.StrictConfig{
		Definition: r.Definition, MaxWait: e.of.c.MaxWait, Moment: e.of.moment, Wake: e.of.Wake, Forward: e.forward[group],
		Status: status, Ring: ring, Refused: &e.of.sequences.refused, Why: e.replaced,
		Complain: func(why string) { e.complain(group, name, why) }, Clock: e.of.clock(r),
	})}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[name] = s
	if now := e.runner.Load(); now != nil && r.Timed() {
		now.SetTimed(group)
	}
	if t := e.terms[s.group]; t.Number != 0 && !e.ending[s.group] {
		e.lead(s, t)
	} else {
		e.direct(s)
	}
	e.takePart()
	return s
}

// complain logs that clients of a sequence get errors, once a minute for each group.
func (e *election) complain(group int, name, why string) {
	last, now := e.told[group].Load(), e.of.moment()
	if (last == 0 || now-last >= int64(time.Minute)) && e.told[group].CompareAndSwap(last, now) {
		e.of.given.Log.Error("a sequence issues no values", "sequence", name, "group", group, "error", why)
	}
}

// judge notes whether the record of a sequence can be used, for terms to come.
func (e *election) judge(r counter.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.known[r.Name]; s != nil {
		s.record.Fault = r.Fault
	}
}

// Close takes the sequence away. No client asks it any more.
func (s *strictSequence) Close() error {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	delete(s.e.known, s.record.Name)
	s.e.of.sequences.keeper.Drop(s.record.Name)
	return nil
}

// lead makes this daemon issue within a term. The caller holds mu.
func (e *election) lead(s *strictSequence, t leader.Term) {
	r := e.runner.Load()
	to := s.Lead(func() int64 { return r.Until(t.Group) })
	if err := e.of.sequences.keeper.Add(s.record, to, s.batch, e.blocks[t.Group]); err != nil {
		e.of.given.Log.Error("a sequence is not led", "error", err)
	}
	e.of.sequences.keeper.Ring(s.record.Name) // a client may have asked for a block before the keeper knew it
}

// direct makes requests go to the daemon that leads, or wait for one. The caller holds mu.
func (e *election) direct(s *strictSequence) {
	r := e.runner.Load()
	if r == nil || e.terms[s.group].Number != 0 {
		return
	}
	s.Follow(e.other(r.View(), s.group))
}

// other returns the address of another daemon that leads a group; "" if there is none. A leader with this
// daemon's own address is none: it was killed and this daemon has its port now, or one of the two -advertise
// is wrong. Requests that were sent there would come back. The caller holds mu.
func (e *election) other(view *leader.View, group int) string {
	if n, ok := view.Leader(group); ok && n.ID != e.id && n.Redis != e.address {
		return n.Redis
	}
	return ""
}

// redirect is called when another daemon may lead.
func (e *election) redirect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.known {
		e.direct(s)
	}
}

// begin is called when this daemon leads a group.
func (e *election) begin(t leader.Term) {
	if e.of.sequences.time.begun.Load() {
		e.of.sample()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.terms[t.Group], e.blocks[t.Group] = t, e.of.sequences.later.within(e.store.Within(t))
	for _, s := range e.known {
		if s.group == t.Group {
			e.lead(s, t)
		}
	}
}

// end is called when this daemon leads a group no more, and issues nothing of it. It returns when the group's
// sequences are sealed and what is left of their blocks was given back. Only then requests go elsewhere: a
// sequence that was sealed sooner would lose a block on its way.
func (e *election) end(t leader.Term) {
	e.mu.Lock()
	e.ending[t.Group] = true
	var given []<-chan struct{}
	for name, s := range e.known {
		if s.group == t.Group {
			if c := e.of.sequences.keeper.Drop(name); c != nil {
				given = append(given, c)
			}
		}
	}
	e.mu.Unlock()
	for _, c := range given {
		<-c
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.terms[t.Group], e.ending[t.Group] = leader.Term{}, false
	for _, s := range e.known {
		if s.group == t.Group {
			e.direct(s)
		}
	}
}

// handOverTimeout limits how long a daemon that stops waits for another one to take over.
const handOverTimeout = 3 * time.Second

// handOver lets others lead from now on; this daemon forwards. If there are no others, it leads on.
func (e *election) handOver() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	r := e.runner.Load()
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	if err := r.Stop(ctx); err != nil && !errors.Is(err, leader.ErrAlone) {
		e.of.given.Log.Warn("sequences are not handed over yet", "error", err)
	}
}

// leave ends this daemon's part. No client asks it any more.
func (e *election) leave() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	if e.runner.Load() != nil {
		e.stop()
		if err := <-e.ended; err != nil {
			e.of.given.Log.Warn("sequences are not handed over: other daemons will lead them in some seconds", "error", err)
		}
		e.others.Wait()
	}
	for _, f := range e.forward {
		f.Close()
	}
}

// demandsEvery is the time between two looks whether an operator wants a group handed over.
const demandsEvery = time.Second

// meetDemands hands over what operators want, until ctx ends.
func (e *election) meetDemands(ctx context.Context, r *leader.Runner) {
	var meeting [leader.MaxGroups]atomic.Bool
	for tick := time.NewTicker(demandsEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		left, err := e.store.Left(ctx)
		if err != nil { // the runner says that etcd does not answer
			continue
		}
		var wanted []leader.Demand
		e.mu.Lock()
		for _, d := range left {
			if d.Term == e.terms[d.Group].Number && d.Term != 0 && d.Answer == "" &&
				meeting[d.Group].CompareAndSwap(false, true) {
				wanted = append(wanted, d)
			}
		}
		e.mu.Unlock()
		if len(wanted) > 0 {
			e.others.Go(func() {
				e.meet(ctx, r, wanted)
				for _, d := range wanted {
					meeting[d.Group].Store(false)
				}
			})
		}
	}
}

// meet hands groups over, or says why not.
func (e *election) meet(ctx context.Context, r *leader.Runner, wanted []leader.Demand) {
	var groups []int
	for _, d := range wanted {
		groups = append(groups, d.Group)
	}
	err := r.Demote(ctx, groups...)
	if err == nil {
		e.of.given.Log.Info("handed over, as an operator asked", "groups", groups)
		return
	}
	e.of.given.Log.Warn("not handed over, although an operator asked for it", "groups", groups, "error", err)
	for i := range wanted {
		wanted[i].Answer = err.Error()
	}
	if err := e.store.Leave(ctx, wanted...); err != nil {
		e.of.given.Log.Warn("cannot tell the operator", "error", err)
	}
}
