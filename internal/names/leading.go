package names

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/forward"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// What clients and operators see of the daemons that lead sequences with order=strict.

// Topology returns the cluster that Redis's clients see: each group belongs to its leader. What no daemon
// leads belongs to this daemon, which says so, and so does everything while it takes no part.
func (n *Names) Topology() protocol.Topology {
	e := n.sequences.election
	t := protocol.Topology{Self: e.id}
	view := &leader.View{}
	if r := e.runner.Load(); r != nil {
		view = r.View()
	}
	e.mu.Lock()
	own, timed := e.address, e.timedSlots()
	e.mu.Unlock()
	at := map[string]int{e.id: 0} // place in t.Nodes
	t.Nodes = []protocol.Node{clusterMember(leader.Node{ID: e.id, Redis: own})}
	place := func(n leader.Node) int {
		i, ok := at[n.ID]
		if !ok {
			i = len(t.Nodes)
			at[n.ID] = i
			t.Nodes = append(t.Nodes, clusterMember(n))
		}
		return i
	}
	for _, n := range view.Nodes {
		if n.Redis != own {
			place(n.Node)
		}
	}
	lead := func(g, first, last int) {
		i, l := 0, view.Leaders[g]
		if l.ID != "" && l.Redis != own { // see other
			i = place(l.Node)
		}
		slots := &t.Nodes[i].Slots
		if n := len(*slots); n > 0 && (*slots)[n-1].Last == first-1 {
			(*slots)[n-1].Last = last
		} else if first <= last {
			*slots = append(*slots, protocol.Slots{First: first, Last: last})
		}
	}
	for _, l := range view.Leaders {
		t.Epoch += l.Number
	}
	for g := range leader.Groups {
		first, last := leader.SlotsOf(g)
		for ; len(timed) > 0 && timed[0] <= last; timed = timed[1:] {
			lead(g, first, timed[0]-1)
			lead(g+leader.Groups, timed[0], timed[0])
			first = timed[0] + 1
		}
		lead(g, first, last)
	}
	return t
}

// timedSlots returns the slots of which this daemon knows timestamps and no other sequence, in rising order. The caller
// holds mu.
func (e *election) timedSlots() []int {
	of := map[int]bool{}
	for name, s := range e.known {
		slot := leader.SlotOf(name)
		before, known := of[slot]
		of[slot] = s.record.Timed() && (before || !known)
	}
	maps.DeleteFunc(of, func(_ int, timed bool) bool { return !timed })
	return slices.Sorted(maps.Keys(of))
}

// clusterMember returns a daemon as a node without slots.
func clusterMember(n leader.Node) protocol.Node {
	host, port, _ := net.SplitHostPort(n.Redis)
	number, _ := strconv.Atoi(port)
	return protocol.Node{ID: n.ID, Host: host, Port: number}
}

// forwarders ask leaders for values, those of each group over connections of its own: while a leader hands a
// group over, requests wait there, and all that come behind them on the same connection.
type forwarders [leader.MaxGroups]*forward.Client

// Figures returns the counts of all.
func (all *forwarders) Figures() (sum forward.Figures) {
	for _, c := range all {
		f := c.Figures()
		sum.Sent, sum.Failed, sum.Values = sum.Sent+f.Sent, sum.Failed+f.Failed, sum.Values+f.Values
	}
	return sum
}

// watched is what an election finds out by asking the leaders. Each is asked once a second for each of its
// groups, which also keeps those connections open.
type watched struct {
	mu      sync.Mutex
	failing map[string]failing // leaders that do not answer, by address
	without [leader.MaxGroups]time.Duration
}

// failing says since when a leader does not answer, and why.
type failing struct {
	since time.Time
	why   error
}

const (
	watchEvery = time.Second
	// unreadyAfter is how long a leader that another daemon could ask may be out of reach before this
	// daemon is not ready. It is longer than a fail-over takes.
	unreadyAfter = 2 * leader.TTL
)

// watch asks the leaders until ctx ends.
func (e *election) watch(ctx context.Context) {
	last := time.Now()
	for tick := time.NewTicker(watchEvery); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		e.look(ctx)
		e.compare(e.runner.Load().View().Nodes)
		now := time.Now()
		e.account(now.Sub(last))
		last = now
	}
}

// leaders returns the groups of known sequences, each with the address of its leader: "" if there is none
// or it is this daemon.
func (e *election) leaders() map[int]string {
	view := e.runner.Load().View()
	e.mu.Lock()
	defer e.mu.Unlock()
	groups := map[int]string{}
	for _, s := range e.known {
		groups[s.group] = e.other(view, s.group)
	}
	return groups
}

// compare logs another daemon that has this one's address, once it has renewed: one that is dead does not.
func (e *election) compare(nodes []leader.NodeKey) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range nodes {
		before, seen := e.sharing[n.ID]
		switch {
		case n.ID == e.id || n.Redis != e.address || e.address == "" || before < 0: // it was logged
		case !seen || before == n.Revision:
			e.sharing[n.ID] = n.Revision
		default:
			e.sharing[n.ID] = -1
			e.of.given.Log.Error("another daemon has the address of this one, so neither can be asked for what the other one "+
				"leads: correct -advertise", "address", n.Redis, "id", n.ID)
		}
	}
}

// look asks each leader whether it is there.
func (e *election) look(ctx context.Context) {
	answers := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for g, address := range e.leaders() {
		if address == "" {
			continue
		}
		all.Go(func() {
			err := e.forward[g].Ping(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			if before, asked := answers[address]; !asked || before != nil { // one answer is enough
				answers[address] = err
			}
		})
	}
	all.Wait()
	w := &e.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.failing
	w.failing = map[string]failing{}
	for address, err := range answers {
		if err == nil {
			continue
		}
		f, ok := before[address]
		if !ok {
			f.since = time.Now()
		}
		f.why = err
		w.failing[address] = f
	}
}

// account adds the time since the last look to the groups that no daemon serves, as far as this daemon knows.
func (e *election) account(passed time.Duration) {
	groups, now := e.leaders(), e.of.boot()
	w := &e.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	for g, address := range groups {
		if _, fails := w.failing[address]; fails || address == "" && e.runner.Load().Until(g) <= now {
			w.without[g] += passed
		}
	}
}

// ready returns an error if this daemon must be restarted to serve strict order, or if a leader is out of reach.
func (e *election) ready() error {
	if err := e.replaced(); err != nil {
		return fmt.Errorf("sequences with order=strict are refused: %w", err)
	}
	if err := e.clockWrong(); err != nil {
		return err
	}
	return e.watched.ready()
}

// ready returns an error if a leader has been out of reach for so long that other daemons would be better
// for clients. Followers are ready; and if there is no leader, no other daemon has one.
func (w *watched) ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for address, f := range w.failing {
		if d := time.Since(f.since); d >= unreadyAfter {
			return fmt.Errorf("sequences are led by %s, which has not answered for %.0fs: %w", address, d.Seconds(), f.why)
		}
	}
	return nil
}

// A Group is one group of sequences in strict order of which this daemon serves some.
type Group struct {
	Number int
	Leader string // where its leader answers; empty = there is none
	Mine   bool   // this daemon leads it, and may issue
	Term   uint64
}

// Leaders returns how many groups this daemon leads, and who leads those whose sequences it serves.
func (n *Names) Leaders() (leading int, groups []Group) {
	e := n.sequences.election
	if e == nil || e.runner.Load() == nil {
		return 0, nil
	}
	r := e.runner.Load()
	seen, now := r.View(), n.boot()
	leading, _ = n.Leads()
	for _, g := range sortedKeys(e.leaders()) {
		by, _ := seen.Leader(g)
		groups = append(groups, Group{g, by.Redis, r.Until(g) > now, uint64(seen.Leaders[g].Number)})
	}
	return leading, groups
}

// Leads returns how many groups this daemon leads, or false while there is no election.
func (n *Names) Leads() (groups int, elects bool) {
	e := n.sequences.election
	if e == nil || e.runner.Load() == nil {
		return 0, false
	}
	for g := range leader.Groups {
		if e.runner.Load().Until(g) > 0 {
			groups++
		}
	}
	return groups, true
}

// LeaderFigures emits what operators see of the election, or nothing while there is none.
func (n *Names) LeaderFigures(emit func(figure.Figure)) { n.sequences.election.figures(emit) }

// figures emits what operators see, or nothing while there is no election.
func (e *election) figures(emit func(figure.Figure)) {
	if e == nil || e.runner.Load() == nil {
		return
	}
	r := e.runner.Load()
	s, f, now, view := r.Stats(), e.forward.Figures(), e.of.boot(), r.View()
	held, until := 0, int64(0)
	for g := range leader.Groups {
		if u := r.Until(g); u > 0 {
			if held++; until == 0 || u < until {
				until = u
			}
		}
	}
	left := time.Duration(0)
	if until > 0 {
		left = time.Duration(until - now)
	}
	emit(figure.Figure{
		Stat: "leader_groups", Metric: "leader_groups", Value: held,
		Help: "Groups of sequences that this daemon leads.",
	})
	emit(figure.Figure{
		Stat: "leader_until_ms", Metric: "leader_until_seconds", Value: left,
		Help: "How long this daemon may issue without another renewal; negative after that, 0 while it leads no " +
			"group.",
		Worry: "below 2 while it leads: renewals fail",
	})
	count := func(name string, v uint64, help, worry string) {
		emit(figure.Figure{Stat: name, Metric: name, Value: v, Count: true, Help: help, Worry: worry})
	}
	count("leader_terms_total", s.Terms, "How often this daemon became the leader of a group.", "")
	count("leader_lost_total", s.Lost, "Groups that another daemon took from this one.",
		"grows: another daemon took a group, because this one stood still or did not reach etcd")
	count("leader_handed_over_total", s.Handed, "Groups that this daemon handed over.", "")
	count("leader_renewals_total", s.Renewals, "Renewals of this daemon's leadership that the store confirmed.", "")
	count("leader_failures_total", s.Failures, "Calls to the store about leadership that got no answer in time.",
		"grows by more than three in five minutes: etcd does not answer in time")
	count("forward_requests_total", f.Sent, "Requests to leaders, each for all waiting clients.", "")
	count("forward_failures_total", f.Failed, "Requests to leaders that brought no values.",
		"grows for minutes, longer than a fail-over: clients get errors, which say why")
	count("forward_values_total", f.Values, "Values that requests to leaders brought.", "")
	for _, g := range sortedKeys(e.leaders()) {
		e.watched.mu.Lock()
		without := e.watched.without[g]
		e.watched.mu.Unlock()
		n, _ := view.Leader(g)
		group := fmt.Sprintf("group_%d_", g)
		labels := []string{"group", strconv.Itoa(g)}
		emit(figure.Figure{Stat: group + "leader", Value: n.Redis})
		emit(figure.Figure{
			Stat: group + "leader_term", Metric: "leader_term", Labels: labels,
			Value: int64(view.Leaders[g].Number), Help: "The newest term of a group.",
		})
		emit(figure.Figure{
			Stat: group + "leader_missing_ms", Metric: "leader_missing_seconds", Labels: labels, Value: without,
			Help:  "Time in which no daemon issued the group's values, as far as this one knows, to a second.",
			Worry: "grows by more than ten in two minutes: no daemon issues the values of this group",
		})
	}
}

func sortedKeys(m map[int]string) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
