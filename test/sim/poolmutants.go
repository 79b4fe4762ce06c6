package sim

import (
	"maps"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A Faulty is what a mutant does, in this world or in another one.
type Faulty struct {
	Rules   cas.Rules
	Commit  func(s *memcas.Server, ch pool.Change) pool.Change // what arrives at the server instead; nil = the same
	AnyConn bool                                               // a write goes over whichever connection there is
	OneName bool                                               // connections have one name
	Stale   bool                                               // versions are compared, of whichever connection
	blind   bool                                               // the first reading after a time is not judged
}

// FaultyOf returns what a mutant does.
func FaultyOf(m Mutant, r pool.Rules) Faulty {
	f := Faulty{Rules: r}
	if mutate := poolMutants[m]; mutate != nil {
		mutate(&f)
	}
	return f
}

// CommitTo is Server.Commit, with what a mutant does to it.
func (f *Faulty) CommitTo(s *memcas.Server, c *memcas.Client, conn string, ch pool.Change) (cas.Answer, error) {
	if f.Commit != nil {
		ch = f.Commit(s, ch)
	}
	if f.AnyConn { // a library that connects again by itself
		if !s.Alive(c.Conn) {
			c.Conn = s.Dial()
		}
		conn = c.Conn
	}
	return s.Commit(c, conn, ch)
}

// These lose nothing but leases.
const (
	Deaf  Mutant = "a lost answer is taken for a write that did not happen"
	Thief Mutant = "a record that moved during the watch is taken"
	// whoever comes back after an outage then finds an epoch that it could have known
	Unaware Mutant = "meta is not compared when leases are extended"
)

// poolMutants replace one rule each. The product has no hooks for them.
var poolMutants = map[Mutant]func(*Faulty){
	"presence is the fence": commits(func(s *memcas.Server, ch pool.Change) pool.Change {
		for w, text := range ch.Set {
			p, err := pool.ParsePresence(s.Present(w))
			if rec, _ := pool.ParseRecord(text); err == nil && p.Owner != rec.Owner {
				return ch
			}
		}
		ch.If, ch.IfMeta = nil, ""
		return ch
	}),
	"a successor starts at the present if the session is gone": with[startsNow],
	"meta is not compared when a worker id is acquired": commits(func(_ *memcas.Server, ch pool.Change) pool.Change {
		return withoutMeta(ch, true)
	}),
	Unaware: commits(func(_ *memcas.Server, ch pool.Change) pool.Change { return withoutMeta(ch, false) }),
	"the record is not compared": commits(func(_ *memcas.Server, ch pool.Change) pool.Change {
		ch.If = nil
		return ch
	}),
	"newcomers do not watch":              with[hasty],
	"returners do not watch":              with[alwaysFresh],
	Thief:                                 with[moved],
	"the watch goes over two connections": func(f *Faulty) { f.AnyConn, f.OneName = true, true },
	"the first reading is not judged":     func(f *Faulty) { f.blind = true },
	"an epoch that only the watch saw is taken for known": with[anyEpoch],
	"a window starts at the mark + 1":                     with[closer],
	"a reservation has ticks":                             with[fullReservation],
	"the floor does not cover the own window":             with[notOwn],
	"the floor does not cover a lease":                    with[onlyOwn],
	"a draining lane does not look after the floor":       with[careless],
	"a holder that was rolled back goes on":               with[reclaims],
	Deaf:                                                  with[deaf],
	"the mark is lowered":                                 with[lowers],
	"the watch is half a heartbeat": func(f *Faulty) {
		r := f.Rules.(pool.Rules)
		r.W = heartbeat / 2 * time.Millisecond
		f.Rules = r
	},
	"an older request id is taken for a clone's":      with[forgetful],
	"versions survive a reconnection":                 func(f *Faulty) { f.Stale = true },
	"any raised floor is taken for a new one":         with[content],
	"W counts from the answer":                        with[lateW],
	"a write goes over whichever connection there is": func(f *Faulty) { f.AnyConn = true },
}

// with replaces some of the rules.
func with[T interface {
	~struct{ pool.Rules }
	cas.Rules
}](f *Faulty) {
	f.Rules = T(struct{ pool.Rules }{f.Rules.(pool.Rules)})
}

// commits changes what arrives at the server.
func commits(change func(*memcas.Server, pool.Change) pool.Change) func(*Faulty) {
	return func(f *Faulty) { f.Commit = change }
}

// withoutMeta drops the comparison of meta from acquisitions, or from extensions.
func withoutMeta(ch pool.Change, acquisitions bool) pool.Change {
	for w, text := range ch.Set {
		before, _ := pool.ParseRecord(ch.If[w])
		after, _ := pool.ParseRecord(text)
		if (before.Owner != after.Owner && after.Owner != "") == acquisitions {
			ch.IfMeta = ""
		}
	}
	return ch
}

// renamed connects again where that is needed, under the first name.
func (x *poolWire) renamed() (string, error) {
	if x.Client.Conn == "" || !x.Server.Alive(x.Client.Conn) {
		conn, err := x.dial()
		if err != nil {
			return "", err
		}
		if x.name == "" {
			x.name = conn
		}
	}
	return x.name, nil
}

// beBlind shows the first reading after a while without commits as if all own records were as they were
// left.
func (x *poolWire) beBlind() {
	left, looked, at := map[uint64]string{}, false, int64(0)
	x.done = func(ch pool.Change) {
		maps.Copy(left, ch.Set)
		looked, at = false, x.c.p.w.now
	}
	x.read = func(v pool.View) {
		if !looked && x.c.p.w.now-at > watch {
			maps.Copy(v.Records, left)
			looked = true
		}
	}
}

type startsNow struct{ pool.Rules }

func (r startsNow) Take(rec pool.Record, m pool.Meta, owner, token string, now pool.Moment) pool.Record {
	return pool.Record{Lo: now.ID, Mark: now.ID + m.Lease, Token: token, Owner: owner}
}

type hasty struct{ pool.Rules }

func (r hasty) Watch(newcomer bool) time.Duration {
	if newcomer {
		return 0
	}
	return r.W
}

type alwaysFresh struct{ pool.Rules }

func (alwaysFresh) Fresh(time.Duration) bool { return true }

type moved struct{ pool.Rules }

func (r moved) Vacant(_, after, present string, m pool.Meta, now pool.Moment) bool {
	return r.Rules.Vacant(after, after, present, m, now)
}

type anyEpoch struct{ pool.Rules }

func (anyEpoch) Returns(pool.Sent, pool.Meta) bool { return true }

type closer struct{ pool.Rules }

func (r closer) Take(rec pool.Record, m pool.Meta, owner, token string, now pool.Moment) pool.Record {
	next := pool.Record{Lo: r.Start(rec, m) - 1, Token: token, Owner: owner}
	next.Mark = next.Lo - 1
	return r.Extend(next, m, token, now)
}

type fullReservation struct{ pool.Rules }

func (r fullReservation) Take(rec pool.Record, m pool.Meta, owner, token string, now pool.Moment) pool.Record {
	next := r.Rules.Take(rec, m, owner, token, now)
	next.Mark = max(next.Mark, next.Lo+m.Lease)
	return next
}

type notOwn struct{ pool.Rules }

func (r notOwn) Raise(m pool.Meta, _ int64, epoch string, now pool.Moment) pool.Meta {
	return r.Rules.Raise(m, 0, epoch, now)
}

type onlyOwn struct{ pool.Rules }

func (r onlyOwn) Raise(m pool.Meta, hi int64, epoch string, _ pool.Moment) pool.Meta {
	m.Epoch, m.Floor = epoch, max(m.Floor, hi)
	return m
}

type careless struct{ pool.Rules }

func (careless) Covered(pool.Meta, string, int64) bool { return true }

type reclaims struct{ pool.Rules }

func (r reclaims) Judge(h pool.Holding, text string) (pool.Verdict, pool.Sent) {
	verdict, found := r.Rules.Judge(h, text)
	if rec, err := pool.ParseRecord(text); verdict == pool.RolledBack && err == nil {
		rec.Owner, rec.Lo = h.Owner, h.Last.Lo
		return pool.Held, pool.Sent{Record: rec, Epoch: h.Epoch}
	}
	return verdict, found
}

type deaf struct{ pool.Rules }

func (r deaf) Judge(h pool.Holding, text string) (pool.Verdict, pool.Sent) {
	h.Unanswered = nil
	return r.Rules.Judge(h, text)
}

type lowers struct{ pool.Rules }

func (lowers) Extend(rec pool.Record, m pool.Meta, token string, now pool.Moment) pool.Record {
	rec.Token = token
	if rec.Lo <= now.ID {
		rec.Mark = max(rec.Lo-1, now.ID+m.Lease)
	}
	return rec
}

type forgetful struct{ pool.Rules }

func (r forgetful) Judge(h pool.Holding, text string) (pool.Verdict, pool.Sent) {
	verdict, found := r.Rules.Judge(h, text)
	if rec, err := pool.ParseRecord(text); verdict == pool.RolledBack && err == nil && rec.Owner == h.Owner {
		return pool.Copied, found
	}
	return verdict, found
}

type content struct{ pool.Rules }

func (content) Raised(m pool.Meta, hi int64, _ pool.Moment) bool { return m.Floor >= hi }

type lateW struct{ pool.Rules }

func (r lateW) Fresh(since time.Duration) bool { return since <= r.W+timeout*time.Millisecond }
