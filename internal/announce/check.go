package announce

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// maxClockDifference is how far the median of the peers' clocks may be from this daemon's.
const maxClockDifference = 10 * time.Second

const (
	askedAtOnce   = 16               // peers that are asked, the same for any size of a fleet
	listTimeout   = time.Second      // of reading all announcements
	checkInterval = 30 * time.Second // between two checks, at random up to a fifth more or less
	namedPeers    = 3                // that a message names
	maxSuspects   = 64               // kept of each kind between two checks
	refusedPause  = 2 * time.Second  // after a start was refused
)

// A Kind is a kind of alarm.
type Kind int

const (
	Clock       Kind = iota // the median of the peers' clocks is too far away; it refuses a start if two agree
	WorkerID                // a peer holds one of this daemon's worker ids
	Fingerprint             // a peer has other settings
	Address                 // another daemon answers at the address that a peer announces, or announces this one's
	NumKinds                // how many kinds there are
)

func (k Kind) String() string {
	return [...]string{"clock", "worker_id", "fingerprint", "address"}[k]
}

// A Checker compares this daemon with those that are announced. It can refuse a start (see Admit), but
// never stops a daemon that issues ids: the store granted its windows, whatever peers say. Any
// goroutine may call its methods.
type Checker struct {
	Directory workerid.Directory
	Name      string // of this daemon's announcement; skipped
	// Self returns this daemon's announcement. A peer with its address is an earlier run.
	Self func() announcement.Announcement
	Ask  func(ctx context.Context, address string, encrypted bool) (Reply, error)
	// Confirm is how long a finding about worker ids or addresses must last. A worker id may change
	// hands between two readings, and a daemon that comes back from an outage learns only with its
	// next heartbeat that its lease is lost.
	Confirm time.Duration
	Refuse  bool // a start, see Admit
	Log     *slog.Logger

	admitted atomic.Bool
	checks   sync.Mutex // one at a time

	mu       sync.Mutex
	figures  Figures
	alarms   [NumKinds]string                // empty = none
	suspects [NumKinds]map[finding]time.Time // since when
	began    int64                           // no earlier run of this daemon has announced anything later; Unix ms
}

// Figures are what the last check has found.
type Figures struct {
	Peers      int           // announcements of other daemons
	Unreadable int           // more of them that cannot be read
	Asked      int           // of the peers: at most askedAtOnce, those that are ready first
	Answered   int           // of those asked
	Difference time.Duration // median of the clocks of those that answered, minus this daemon's; 0 if none did
	Alarms     [NumKinds]bool
}

// Figures returns what the last check has found.
func (c *Checker) Figures() Figures {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.figures
	for k := range NumKinds {
		f.Alarms[k] = c.alarms[k] != ""
	}
	return f
}

// Alarms returns the text of the alarm of each Kind; empty = there is none.
func (c *Checker) Alarms() [NumKinds]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alarms
}

// Notes returns a line for each alarm.
func (c *Checker) Notes() (list []string) {
	for _, text := range c.Alarms() {
		if text != "" {
			list = append(list, text)
		}
	}
	return list
}

// Run checks until ctx ends. If a start can be refused, it waits until Admit has let it pass.
func (c *Checker) Run(ctx context.Context) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		wait := checkInterval*4/5 + rand.N(checkInterval*2/5)
		if c.Refuse && !c.admitted.Load() {
			wait = time.Second
		} else if _, err := c.check(ctx); err != nil {
			c.Log.Debug("the peers are not known", "error", err)
		} else if c.suspicious() || len(c.Self().Workers) == 0 { // nothing to compare yet
			wait = c.Confirm
		}
		next.Reset(wait)
	}
}

// A refusal is why a daemon may not start yet. Nothing was granted; retry.
type refusal struct {
	text string
	kind error
	wait time.Duration
}

func (r *refusal) Error() string { return r.text }

// Unwrap makes it one of the errors with which a Store grants nothing.
func (r *refusal) Unwrap() error { return r.kind }

// RetryAfter says when to ask again.
func (r *refusal) RetryAfter() time.Duration { return r.wait }

// Admit returns nil if this daemon may acquire worker ids: once its clock and its settings were those
// of its peers. Otherwise the error is a *refusal. Peers that do not answer refuse nothing, nor does
// a single clock, nor a store that cannot list them.
func (c *Checker) Admit(ctx context.Context) error {
	if !c.Refuse || c.admitted.Load() {
		return nil
	}
	found, err := c.check(ctx)
	switch {
	case err != nil:
		c.Log.Warn("cannot read the peers: their clocks are not compared", "error", err)
		return nil // and the next acquisition tries again
	case found.clock != "":
		return &refusal{found.clock, workerid.ErrSkew, refusedPause}
	case found.settings != "":
		return &refusal{found.settings, workerid.ErrForeignPool, refusedPause}
	}
	c.admitted.Store(true)
	if ctx.Err() != nil { // slow peers have used up the call's time
		return &refusal{"the peers were asked for their clocks", workerid.ErrNoneYet, time.Millisecond}
	}
	return nil
}

// outcome is what Admit must know of a check: empty, or why a start is refused.
type outcome struct{ clock, settings string }

// A finding is something about a peer that becomes an alarm if it lasts.
type finding struct{ name, text string }

// A peer is one that was asked.
type peer struct {
	announcement.Announcement
	name  string
	reply Reply
	err   error
}

// check reads the announcements, asks some of the peers and sets the alarms.
func (c *Checker) check(ctx context.Context) (outcome, error) {
	c.checks.Lock()
	defer c.checks.Unlock()
	entries, err := c.list(ctx)
	if err != nil {
		return outcome{}, err
	}
	delete(entries, c.Name)
	self, peers := c.Self(), announcement.Latest(entries)
	figures := Figures{Peers: len(peers), Unreadable: unreadable(entries)}
	asked := c.ask(ctx, c.sample(peers, self.Addr))
	self = c.Self() // a worker id that was acquired meanwhile
	figures.Asked = len(asked)
	asked = slices.DeleteFunc(asked, func(p peer) bool {
		if p.err != nil {
			c.Log.Debug("cannot ask a peer", "addr", p.Addr, "error", p.err)
		}
		return p.err != nil
	})
	figures.Answered, figures.Difference = len(asked), median(asked)

	var found outcome
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.figures = figures
	text, sure := judgeClocks(asked, figures.Difference)
	if c.raise(Clock, text); sure {
		found.clock = text
	}
	asked = slices.DeleteFunc(asked, func(p peer) bool { return !p.Ready }) // of these only the clock counts
	c.raise(Fingerprint, judgeSettings(peers, self.Fingerprint, 0))
	found.settings = judgeSettings(said(asked), self.Fingerprint, len(asked)/2)
	if c.began == 0 {
		c.began = now.Add(maxClockDifference).UnixMilli()
	}
	c.raise(WorkerID, c.confirmed(WorkerID, sharers(peers, asked, self.Workers), now,
		"worker ids: another daemon says that it holds one of this daemon's; the store's records count, see katsubushi "+
			"lease list"))
	c.raise(Address, c.confirmed(Address, append(strangers(asked), twins(entries, self.Addr, c.began)...), now,
		"addresses: another daemon answers there than the one that announced it, look at their -advertise"))
	return found, nil
}

// list reads the announcements.
func (c *Checker) list(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	entries, err := c.Directory.Peers(ctx)
	return maps.Clone(entries), err
}

// unreadable counts the entries that Parse refuses.
func unreadable(entries map[string]string) (n int) {
	for _, text := range entries {
		if _, err := announcement.Parse(text); err != nil {
			n++
		}
	}
	return n
}

// sample chooses the peers that are asked, those first about whom there is a suspicion, and those last that
// are not ready: they wait for a worker id, and have a clock, or have no port yet, or soon none.
func (c *Checker) sample(peers map[string]announcement.Announcement, own string) []peer {
	var list []peer
	for name, p := range peers {
		if p.Addr != "" && p.Addr != own {
			list = append(list, peer{Announcement: p, name: name})
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	c.mu.Lock()
	defer c.mu.Unlock()
	again := map[string]bool{}
	for _, k := range c.suspects {
		for f := range k {
			again[f.name] = true
		}
	}
	turn := func(p peer) int {
		switch {
		case !p.Ready:
			return 2
		case !again[p.name]:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b peer) int { return turn(a) - turn(b) })
	return list[:min(len(list), askedAtOnce)]
}

// ask asks all at once.
func (c *Checker) ask(ctx context.Context, list []peer) []peer {
	ctx = context.WithoutCancel(ctx) // of the store's call; each has its own time
	var asking sync.WaitGroup
	for i := range list {
		asking.Go(func() {
			p := &list[i]
			p.reply, p.err = c.Ask(ctx, p.Addr, p.TLS)
		})
	}
	asking.Wait()
	return list
}

// median returns the median of the clocks, minus this daemon's. Of two in the middle it takes the
// nearer one, so that one wrong clock of two refuses nothing.
func median(asked []peer) time.Duration {
	if len(asked) == 0 {
		return 0
	}
	all := make([]time.Duration, len(asked))
	for i, p := range asked {
		all[i] = p.reply.Ahead
	}
	slices.Sort(all)
	a, b := all[(len(all)-1)/2], all[len(all)/2]
	if a.Abs() < b.Abs() {
		return a
	}
	return b
}

// judgeClocks returns a text if the median of the clocks is too far away. sure: another clock agrees with the
// median one. A clock that nobody confirms, such as that of the first daemon of a fleet, may itself be the wrong
// one, and must not keep all others out.
func judgeClocks(asked []peer, difference time.Duration) (text string, sure bool) {
	if difference.Abs() <= maxClockDifference {
		return "", false
	}
	var each []string
	agree := 0
	for _, p := range asked {
		each = append(each, fmt.Sprintf("%s by %v", p.Addr, p.reply.Ahead.Round(time.Second)))
		if (p.reply.Ahead - difference).Abs() <= maxClockDifference {
			agree++
		}
	}
	slices.Sort(each)
	text = fmt.Sprintf("clocks: those of the peers are ahead of this host's by %v in the median, "+
		"and %v either way is allowed: %s", difference.Round(time.Second), maxClockDifference, some(each))
	if agree < 2 {
		text += "; no two of them agree, so this host's may be right, and no start is refused"
	}
	return text, agree >= 2
}

// said returns the announcements of the peers that answered, with what they said themselves.
func said(asked []peer) map[string]announcement.Announcement {
	list := map[string]announcement.Announcement{}
	for _, p := range asked {
		a := p.Announcement
		if p.reply.Fingerprint != "" {
			a.Fingerprint = p.reply.Fingerprint
		}
		list[p.name] = a
	}
	return list
}

// judgeSettings returns a text if more than a number of peers have fingerprints other than this
// daemon's.
func judgeSettings(peers map[string]announcement.Announcement, own string, allowed int) string {
	var each []string
	for name, p := range peers {
		if p.Fingerprint != own {
			each = append(each, fmt.Sprintf("%s has %q", whose(p, name), p.Fingerprint))
		}
	}
	if len(each) <= allowed {
		return ""
	}
	slices.Sort(each)
	return fmt.Sprintf("settings: peers have others than this daemon, %q: %s", own, some(each))
}

// sharers finds peers that announce, or say, that they hold one of our worker ids.
func sharers(peers map[string]announcement.Announcement, asked []peer, own []uint64) (found []finding) {
	add := func(name string, a announcement.Announcement, workers []uint64) {
		for _, id := range workers {
			f := finding{name, fmt.Sprintf("%s has %d", whose(a, name), id)}
			if slices.Contains(own, id) && len(found) < maxSuspects && !slices.Contains(found, f) {
				found = append(found, f)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(peers)) {
		add(name, peers[name], peers[name].Workers)
	}
	for _, p := range asked {
		add(p.name, p.Announcement, p.reply.Workers)
	}
	return found
}

// strangers finds addresses at which a daemon answers that has none of the announced worker ids.
func strangers(asked []peer) (found []finding) {
	for _, p := range asked {
		isOne := func(id uint64) bool { return slices.Contains(p.Workers, id) }
		if len(p.Workers) > 0 && len(p.reply.Workers) > 0 && !slices.ContainsFunc(p.reply.Workers, isOne) {
			found = append(found, finding{p.name, fmt.Sprintf("%s announced %d and has %d", p.Addr, p.Workers, p.reply.Workers)})
		}
	}
	return found
}

// twins finds daemons that are ready at this one's own address, as they have announced after a moment. At most one of
// two is found if stores ask for no announcement again: the earlier one finds the later.
func twins(entries map[string]string, own string, after int64) (found []finding) {
	for name, text := range entries {
		a, err := announcement.Parse(text)
		if err == nil && own != "" && a.Addr == own && a.Ready && a.At > after && len(found) < maxSuspects {
			found = append(found, finding{name, fmt.Sprintf("%s announced %d and is this daemon", own, a.Workers)})
		}
	}
	return found
}

func whose(a announcement.Announcement, name string) string {
	if a.Addr != "" {
		return a.Addr
	}
	return fmt.Sprintf("%.40q", name)
}

// confirmed returns the text of an alarm about what was found that was also found Confirm ago and
// since then, empty if there is nothing. The caller holds mu.
func (c *Checker) confirmed(k Kind, found []finding, now time.Time, meaning string) string {
	since := map[finding]time.Time{}
	var lasting []string
	for _, f := range found {
		first, again := c.suspects[k][f]
		if !again {
			first = now
		}
		since[f] = first
		if now.Sub(first) >= c.Confirm {
			lasting = append(lasting, f.text)
		}
	}
	c.suspects[k] = since
	if len(lasting) == 0 {
		return ""
	}
	slices.Sort(lasting)
	return meaning + ": " + some(lasting)
}

// suspicious reports whether something was found that is not confirmed yet.
func (c *Checker) suspicious() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.alarms[WorkerID] == "" && len(c.suspects[WorkerID]) > 0 || c.alarms[Address] == "" &&
		len(c.suspects[Address]) > 0
}

// raise sets an alarm, or ends it, and logs the change. The caller holds mu.
func (c *Checker) raise(k Kind, text string) {
	switch before := c.alarms[k]; {
	case text != "" && before == "":
		c.Log.Error("alarm about peers", "kind", k.String(), "what", text)
	case text == "" && before != "":
		c.Log.Info("alarm about peers is over", "kind", k.String())
	}
	c.alarms[k] = text
}

// some joins a few texts, and says how many more there are.
func some(texts []string) string {
	if n := len(texts) - namedPeers; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(texts[:namedPeers], ", "), n)
	}
	return strings.Join(texts, ", ")
}

// Gate returns a Store that acquires nothing before Admit allows it.
func (c *Checker) Gate(s workerid.Store) workerid.Store { return gated{s, c} }

type gated struct {
	workerid.Store
	check *Checker
}

func (g gated) Acquire(ctx context.Context, want workerid.Request) (workerid.Grant, error) {
	if err := g.check.Admit(ctx); err != nil {
		return workerid.Grant{}, err
	}
	return g.Store.Acquire(ctx, want)
}
