package explore

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/test/sim"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// The figures of the world of leases, ms: those of package sim.
const (
	lease     = 10_000
	heartbeat = 800
	timeout   = 1_000
	runAhead  = 1_000
	skew      = 750
	epsilon   = 2*skew + 1000
	watch     = heartbeat + heartbeat/10 + 2*timeout
	began     = 1_800_000_000_000
)

// pauses are how long daemons stand still, ms: just longer than a watch, and than a lease.
var pauses = [...]int64{watch + timeout/4, lease + watch/2}

var rules = pool.Rules{W: watch * time.Millisecond, MaxSkew: skew}

// leases is the world of two holders and a newcomer over a store that compares and sets.
type leases struct {
	mutant  *sim.Faulty
	now     int64
	server  *memcas.Server
	daemons [3]*daemon
	windows []window
	backup  *backup
	serial  int // of what operators write
	promise

	next  *leases // after the default, if that is known
	asked int     // requests within it
}

// A daemon is what one has between the events of its own. It does not change.
type daemon struct {
	name      string
	life      int
	session   *cas.Session
	client    memcas.Client
	firstConn string
	grant     workerid.Grant
	stopped   bool  // a copy of it runs
	due, up   int64 // when its next call comes, and its next upkeep
	offset    int64 // of its clock
	sheltered int64 // until then nothing happens to it: it bears witness
	during    *during
}

// A during is a call that waits for an answer, or to send a request.
type during struct {
	upkeep  bool
	answers []answer // until now; the call is run again with them
	until   int64
	started int64
	offset  int64
}

// An answer is that of any call of a driver, and the clock when it came.
type answer struct {
	conn       string
	view       pool.View
	commit     cas.Answer
	err        error
	at, offset int64
}

type backup struct {
	at    int64
	state memcas.State
}

// Leases returns the world of two holders and a newcomer once all is steady.
func Leases(mutant string) World {
	w := &leases{mutant: new(sim.Faulty)}
	*w.mutant = sim.FaultyOf(sim.Mutant(mutant), rules)
	w.server = memcas.NewServer(func() int64 { return w.now }, lease/2)
	w.server.Init(settings("0.0", began-2*old))
	for i := range w.daemons {
		w.daemons[i] = w.newborn(i, 0)
		w.daemons[i].due += int64(i) * (watch + 2*heartbeat + heartbeat/3)
	}
	for w.now < 2*old {
		w = w.Do(Choice{}).(*leases)
	}
	w.wrong = ""
	return &since{w, w.now}
}

func settings(epoch string, floor int64) pool.Meta {
	return pool.Meta{Epoch: epoch, Floor: floor, Fingerprint: "explored", Lease: lease, Epsilon: epsilon, Min: 1, Max: 2}
}

// newborn is a daemon that has just started.
func (w *leases) newborn(i, life int) *daemon {
	s := &cas.Session{Pool: settings("", 0), Addr: "explored", Rules: w.mutant.Rules}
	d := &daemon{name: string(rune('a' + i)), life: life, session: s, due: w.now + 50, up: w.now + 50 + heartbeat}
	d.client.Stale = w.mutant.Stale
	return d
}

func (d *daemon) owner() string { return d.name + strconv.Itoa(d.life) }

// clone is a copy whose server and daemons are still shared.
func (w *leases) clone() *leases {
	c := *w
	c.next = nil
	c.windows = slices.Clone(w.windows)
	c.server = w.server.Clone(func() int64 { return c.now })
	return &c
}

// own makes a daemon this state's.
func (w *leases) own(i int) *daemon {
	d := *w.daemons[i]
	d.client = d.client.Clone()
	w.daemons[i] = &d
	return &d
}

// first is the daemon whose event is the next, and when.
func (w *leases) first(but int) (who int, at int64) {
	who = -1
	for i, d := range w.daemons {
		if t := d.at(); i != but && !d.stopped && (who < 0 || t < at) {
			who, at = i, t
		}
	}
	return who, at
}

func (d *daemon) at() int64 {
	if d.during != nil {
		return d.during.until
	}
	return min(d.due, d.up)
}

// after is just after the next event of another daemon.
func (w *leases) after(i int) int64 {
	_, at := w.first(i)
	return max(at, w.now) + 1
}

// Now implements World.
func (w *leases) Now() int64 { return w.now }

// Choices implements World.
func (w *leases) Choices(to []Choice, extra bool) []Choice {
	o := offer(append(to, Choice{}))
	if extra {
		w.costs(&o)
	}
	if extra || w.backup != nil {
		w.restores(&o)
	}
	return o
}

// costs adds what may happen besides, but for backups.
func (w *leases) costs(o *offer) {
	if w.next == nil {
		w.next = w.step(Choice{})
	}
	who, _ := w.first(-1)
	o.preempt(who, 0, Put)
	for at := range w.next.asked {
		o.preempt(who, at, LateSend, LateAnswer)
	}
	if w.daemons[who].sheltered <= w.now {
		for at := range w.next.asked {
			for _, k := range []Kind{NoRequest, NoAnswer, Breaks} {
				o.fault(k, who, at, 0)
			}
			o.faults(StopSend, who, at, len(pauses))
		}
		o.faults(Pause, who, 0, len(pauses))
		o.fault(Kill, who, 0, 0)
		o.faults(Jump, who, 0, 2)
	}
	for _, k := range []Kind{Expire, Raise, Wipe} {
		o.fault(k, 0, 0, 0)
	}
	o.fault(Free, 0, 0, 1)
	o.fault(Free, 0, 0, 2)
}

// restores adds backups and what can be done with them. A backup is worth one only before a write.
func (w *leases) restores(o *offer) {
	switch {
	case w.backup == nil && w.next.server.Writes() != w.server.Writes():
		o.fault(Backup, 0, 0, 0)
		return
	case w.backup == nil || w.now <= w.backup.at+watch+timeout || w.sheltered():
		return
	}
	seen, view := false, w.backup.state.View()
	for i, d := range w.daemons {
		if d.during == nil && !d.stopped && d.at() <= w.now+heartbeat && w.notices(i, view) {
			seen = true
			o.free(Restore, i, 0)
		}
	}
	if !seen { // an operator says so
		o.free(Restore, -1, 0)
	}
}

// notices says whether a daemon must see what a restore loses: of its lease, or of windows that it still uses. A mutant
// must not get out of that, so the rules are those of no mutant, and what it says itself is not all.
func (w *leases) notices(i int, view pool.View) bool {
	d := w.daemons[i]
	s := d.session.Clone()
	s.Rules = rules
	s.Now = func() pool.Moment { return moment(w.now, d.offset) }
	return s.Notices(view) || slices.ContainsFunc(w.windows, func(x window) bool {
		if x.daemon != i || began+w.now+d.offset > x.hi {
			return false
		}
		m, err := pool.ParseMeta(view.Meta)
		return err == nil && !rules.Covered(m, view.Records[x.worker], x.hi)
	})
}

func (w *leases) sheltered() bool {
	return slices.ContainsFunc(w.daemons[:], func(d *daemon) bool { return d.sheltered > w.now })
}

func moment(now, offset int64) pool.Moment {
	return pool.Moment{Boot: time.Duration(now) * time.Millisecond, ID: began + now + offset, Wall: began + now + offset}
}

// Do implements World.
func (w *leases) Do(c Choice) World {
	if c.Kind == Default && w.next != nil {
		return w.next
	}
	return w.step(c)
}

func (w *leases) step(c Choice) *leases {
	n := w.clone()
	switch c.Kind {
	case Default, LateSend, LateAnswer, NoRequest, NoAnswer, Breaks, StopSend:
		n.call(c)
	case Put:
		n.putOff(int(c.Who), n.after(int(c.Who)))
	case Pause:
		n.putOff(int(c.Who), n.now+pauses[c.Arg])
	case Kill:
		n.end(int(c.Who))
		n.daemons[c.Who] = n.newborn(int(c.Who), n.daemons[c.Who].life+1)
	case Jump:
		n.own(int(c.Who)).offset += []int64{-skew / 2, skew / 2}[c.Arg]
	case Expire:
		n.server.Expire()
	case Raise:
		n.raise()
	case Wipe:
		n.server.Init(settings(n.operator(), began+n.now+lease+epsilon))
	case Free:
		if rec, err := pool.ParseRecord(n.server.Record(uint64(c.Arg))); err == nil && rec.Owner != "" {
			n.server.SetRecord(uint64(c.Arg), pool.Record{Mark: rec.Mark, Lo: rec.Lo, Token: n.operator()}.String())
		}
	case Backup:
		n.backup = &backup{n.now, n.server.Save()}
	case Restore:
		n.server.Restore(n.backup.state)
		if c.Who < 0 {
			n.raise()
		} else {
			n.own(int(c.Who)).sheltered = n.now + 2*watch
		}
		n.backup = nil
	}
	return n
}

func (w *leases) operator() string {
	w.serial++
	return "operator." + strconv.Itoa(w.serial)
}

// raise is what operators do after a restore, or at any time.
func (w *leases) raise() {
	m := w.server.Meta()
	m.Epoch, m.Floor = w.operator(), max(m.Floor, began+w.now+lease+epsilon)
	for worker := m.Min; worker <= m.Max; worker++ {
		rec, _ := pool.ParseRecord(w.server.Record(worker))
		m.Floor = max(m.Floor, rec.Mark)
	}
	w.server.SetMeta(m)
}

// putOff lets a daemon's next event, and what comes after it, be later.
func (w *leases) putOff(i int, until int64) {
	d := w.own(i)
	if d.during != nil {
		later := *d.during
		later.until = max(later.until, until)
		d.during = &later
	}
	d.due, d.up = max(d.due, until), max(d.up, until)
}

// end ends a daemon's life: its windows reach as far as it has issued.
func (w *leases) end(i int) {
	w.use()
	end(w.windows, i)
}

// use notes up to where daemons may have issued ids by now.
func (w *leases) use() {
	use(w.windows, func(i int) int64 { return began + w.now + w.daemons[i].offset })
	w.apart(w.windows)
}

// Digest implements World.
func (w *leases) Digest() uint64 {
	d := digest{now: began + w.now, boot: w.now, seen: make([]string, 0, 32)}
	d.about = func(d *digest, name string) {
		a, b, c := w.daemons[0].session, w.daemons[1].session, w.daemons[2].session
		d.Number(flags(a.Mine(name), b.Mine(name), c.Mine(name), w.server.Alive(name)))
		if ends := w.server.Session(name); ends > w.now {
			d.Number(ends - w.now)
		}
	}
	w.server.Visit(&d)
	for _, x := range w.daemons {
		x.visit(&d, w.now)
	}
	visitWindows(w.windows, &d)
	if w.backup != nil {
		d.Number(w.now - w.backup.at)
		w.backup.state.Visit(&d)
	}
	return d.h
}

func (x *daemon) visit(d *digest, now int64) {
	x.session.Visit(d)
	d.names(x.client.Conn, x.client.Session, x.firstConn)
	d.times(x.grant.Lo, x.grant.Hi)
	d.numbers(int64(x.life), int64(x.grant.Worker), x.due-now, x.up-now, x.offset, flags(x.stopped),
		max(x.sheltered-now, 0))
	if u := x.during; u != nil {
		d.numbers(u.until-now, u.started-now, u.offset)
		for _, a := range u.answers {
			a.visit(d, now)
		}
	}
}

func (a answer) visit(d *digest, now int64) {
	d.numbers(a.at-now, a.offset)
	d.names(a.conn, a.commit.Session)
	switch {
	case errors.Is(a.err, cas.ErrConnection):
		d.Number(1)
	case a.err != nil:
		d.Number(2)
	case a.commit.Done:
		d.Number(3)
	}
	for _, v := range []pool.View{a.view, a.commit.View} {
		d.Text(v.Meta)
		for w := uint64(1); w <= 2; w++ {
			d.Text(v.Records[w])
			d.Text(v.Present[w])
		}
	}
}
