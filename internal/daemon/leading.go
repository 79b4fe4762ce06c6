package daemon

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// What clients and operators see of the daemons that lead sequences with order=strict.

// topology returns the cluster that Redis's clients see: each group belongs to its leader. What nobody
// leads belongs to this daemon, which says so, and so does everything while it takes no part.
func (d *Daemon) topology() protocol.Topology {
	e := d.sequences.election
	t := protocol.Topology{Self: e.id}
	view := &leader.View{}
	if r := e.runner.Load(); r != nil {
		view = r.View()
	}
	e.mu.Lock()
	own := e.address
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
	for g, l := range view.Leaders {
		t.Epoch += l.Number
		i := 0
		if l.ID != "" && l.Redis != own { // see other
			i = place(l.Node)
		}
		first, last := leader.SlotsOf(g)
		slots := &t.Nodes[i].Slots
		if n := len(*slots); n > 0 && (*slots)[n-1].Last == first-1 {
			(*slots)[n-1].Last = last
		} else {
			*slots = append(*slots, protocol.Slots{First: first, Last: last})
		}
	}
	return t
}

// clusterMember returns a daemon as a node without slots.
func clusterMember(n leader.Node) protocol.Node {
	host, port, _ := net.SplitHostPort(n.Redis)
	number, _ := strconv.Atoi(port)
	return protocol.Node{ID: n.ID, Host: host, Port: number}
}

// watched is what an election finds out by asking the leaders. Each is asked once a second, which also
// keeps a connection to it open.
type watched struct {
	mu      sync.Mutex
	failing map[string]failing // leaders that do not answer, by address
	without [leader.Groups]time.Duration
}

// failing says since when a leader does not answer, and why.
type failing struct {
	since time.Time
	why   error
}

const (
	watchEvery = time.Second
	// unreadyAfter is how long a leader that somebody else could ask may be out of reach before this
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
		e.compare()
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
func (e *election) compare() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, n := range e.runner.Load().View().Nodes {
		before, seen := e.sharing[n.ID]
		switch {
		case n.ID == e.id || n.Redis != e.address || e.address == "" || before < 0: // it was logged
		case !seen || before == n.Revision:
			e.sharing[n.ID] = n.Revision
		default:
			e.sharing[n.ID] = -1
			e.d.c.Log.Error("another daemon has the address of this one, so neither can be asked for what the other one leads: correct -advertise", "address", n.Redis, "id", n.ID)
		}
	}
}

// look asks each leader whether it is there.
func (e *election) look(ctx context.Context) {
	answers := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, address := range e.leaders() {
		mu.Lock()
		_, asked := answers[address]
		answers[address] = nil
		mu.Unlock()
		if address == "" || asked {
			continue
		}
		all.Go(func() {
			err := e.forwarder.Ping(ctx, address)
			mu.Lock()
			defer mu.Unlock()
			answers[address] = err
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

// account adds the time since the last look to the groups that nobody serves, as far as this daemon knows.
func (e *election) account(passed time.Duration) {
	groups, now := e.leaders(), clock.Boot()
	w := &e.watched
	w.mu.Lock()
	defer w.mu.Unlock()
	for g, address := range groups {
		if _, fails := w.failing[address]; fails || address == "" && e.runner.Load().Until(g) <= now {
			w.without[g] += passed
		}
	}
}

// ready returns an error if a leader has been out of reach for so long that other daemons would be better
// for clients. Those who follow are ready; and if there is no leader, nobody else has one.
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

// A leaderFigure is one for `stats` and /metrics.
type leaderFigure struct {
	name, help string
	value      any // as in issuer.Fact
	group      int // that it is about; -1 = none
}

// figures returns what operators see, or nothing while there is no election.
func (e *election) figures() (list []leaderFigure) {
	r := e.runner.Load()
	if r == nil {
		return nil
	}
	add := func(group int, name, help string, v any) { list = append(list, leaderFigure{name, help, v, group}) }
	s, f, now, view := r.Stats(), e.forwarder.Figures(), clock.Boot(), r.View()
	held, until := 0, int64(0)
	for g := range leader.Groups {
		if u := r.Until(g); u > 0 {
			if held++; until == 0 || u < until {
				until = u
			}
		}
	}
	left := 0.0
	if until > 0 {
		left = float64(until-now) / 1e9
	}
	add(-1, "leader_groups", "Groups of sequences that this daemon leads.", int64(held))
	add(-1, "leader_until_seconds", "For how long it may issue without another renewal; negative when that is over, 0 while it leads nothing.", left)
	add(-1, "leader_terms_total", "Times that it became the leader of a group.", s.Terms)
	add(-1, "leader_lost_total", "Groups that another daemon took from it.", s.Lost)
	add(-1, "leader_handed_over_total", "Groups that it handed over.", s.Handed)
	add(-1, "leader_renewals_total", "Renewals of its leadership that the store confirmed.", s.Renewals)
	add(-1, "leader_failures_total", "Calls of the store about leadership without an answer in time.", s.Failures)
	add(-1, "forward_requests_total", "Requests to daemons that lead, each for all clients that waited.", f.Sent)
	add(-1, "forward_failures_total", "Of those, the ones that brought no values.", f.Failed)
	add(-1, "forward_values_total", "Values that they brought.", f.Values)
	w := &e.watched
	for _, g := range sortedKeys(e.leaders()) {
		w.mu.Lock()
		without := w.without[g]
		w.mu.Unlock()
		n, _ := view.Leader(g)
		add(g, "leader", "", n.Redis)
		add(g, "leader_term", "The newest term of a group.", int64(view.Leaders[g].Number))
		add(g, "leader_missing_seconds", "Time in which no daemon issued the group's values, as far as this one knows, to a second.", without.Seconds())
	}
	return list
}

func sortedKeys(m map[int]string) (keys []int) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// leaderStats adds the figures to a group of statistics.
func (d *Daemon) leaderStats(add func(name string, value any)) {
	e := d.sequences.election
	if e == nil {
		return
	}
	for _, f := range e.figures() {
		name := f.name
		if v, ok := f.value.(float64); ok { // as all times in statistics
			name, f.value = strings.TrimSuffix(name, "_seconds")+"_ms", int64(v*1000)
		}
		if f.group >= 0 {
			name = fmt.Sprintf("group_%d_%s", f.group, name)
		}
		add(name, f.value)
	}
}

// leaderMetrics returns the figures that are numbers.
func (d *Daemon) leaderMetrics() (list []metrics.Figure) {
	e := d.sequences.election
	if e == nil {
		return nil
	}
	for _, f := range e.figures() {
		value, count, ok := numeric(f.value)
		if !ok {
			continue
		}
		m := metrics.Figure{Name: f.name, Help: f.help, Value: value, Count: count}
		if f.group >= 0 {
			m.Labels = []string{"group", strconv.Itoa(f.group)}
		}
		list = append(list, m)
	}
	return list
}
