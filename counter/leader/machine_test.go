package leader

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// A world is a board, a clock, and the daemons that play.
type world struct {
	t   *testing.T
	b   *board
	now int64
	all []*player
}

func newWorld(t *testing.T) *world { return &world{t: t, b: newBoard(), now: int64(time.Hour)} }

// A player drives a Machine.
type player struct {
	*Machine
	w      *world
	frozen bool         // it does nothing
	busy   bool         // Ended is not called by itself
	begun  map[int]Term // that have not ended
	story  []string     // of Begin and End
}

func (w *world) join(id string) *player {
	p := &player{Machine: NewMachine(Node{ID: id, Redis: id + ":11212"}), w: w, begun: map[int]Term{}}
	w.all = append(w.all, p)
	return p
}

// act does what a driver does about Events.
func (p *player) act() {
	for _, e := range p.Events() {
		old, runs := p.begun[e.Group]
		switch {
		case e.Begins && !runs:
			p.begun[e.Group] = e.Term
			p.story = append(p.story, fmt.Sprintf("begin %d/%d", e.Group, e.Number))
		case !e.Begins && runs && old == e.Term:
			if p.Until(e.Group) != 0 {
				p.w.t.Errorf("%s may still answer after the end of %v", p.me.ID, e)
			}
			delete(p.begun, e.Group)
			p.story = append(p.story, fmt.Sprintf("end %d/%d lost=%v", e.Group, e.Number, e.Lost))
			if !p.busy {
				p.Ended(e.Group)
			}
		default:
			p.w.t.Errorf("%s: %+v, and before it was %v %v", p.me.ID, e, runs, old)
		}
	}
}

// once does all that a player wants to do now, with answers at once.
func (p *player) once() {
	for range 100 {
		p.act()
		c, wake := p.Next(p.w.now)
		if c == nil {
			if wake <= p.w.now {
				p.w.t.Fatalf("%s wants nothing, and to be asked again in the past", p.me.ID)
			}
			return
		}
		done, s := p.w.b.commit(*c)
		p.Answer(p.w.now, done, s, nil)
	}
	p.w.t.Fatalf("%s never rests", p.me.ID)
}

// run lets time pass. In it, no two players may answer requests of one group.
func (w *world) run(d time.Duration) {
	w.t.Helper()
	for end := w.now + int64(d); w.now < end; w.now += int64(10 * time.Millisecond) {
		for _, p := range w.all {
			if !p.frozen {
				p.once()
			}
		}
		for g := range Groups {
			n := 0
			for _, p := range w.all {
				if w.now < p.Until(g) {
					n++
				}
			}
			if n > 1 {
				w.t.Fatalf("%d daemons answer for group %d", n, g)
			}
		}
	}
}

func (w *world) leads(p *player) (n int) { return w.held(p.me.ID) }
func (w *world) held(id string) int {
	s := w.b.state()
	return (&View{Leaders: s.Leaders}).Held(id)
}

func (w *world) want(what string, got, want any) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// settled is a world in which a leads all groups and the others have joined afterwards.
func settled(t *testing.T, others ...string) (w *world, a *player, rest []*player) {
	w = newWorld(t)
	a = w.join("a")
	w.run(2 * time.Second)
	for _, id := range others {
		rest = append(rest, w.join(id))
	}
	w.run(2500 * time.Millisecond)
	w.want("groups of a", w.leads(a), Groups)
	return w, a, rest
}

// next wants a Change that is to be committed now.
func (p *player) next() Change {
	p.w.t.Helper()
	p.act()
	c, _ := p.Next(p.w.now)
	if c == nil {
		p.w.t.Fatalf("%s wants nothing", p.me.ID)
	}
	return *c
}

// until lets a player do all but the next Change for which it is true, and returns that.
func (p *player) until(true func(Change) bool) Change {
	p.w.t.Helper()
	for range 1000 {
		p.act()
		c, wake := p.Next(p.w.now)
		if c == nil {
			p.w.now = wake
			continue
		}
		if true(*c) {
			return *c
		}
		done, s := p.w.b.commit(*c)
		p.Answer(p.w.now, done, s, nil)
	}
	p.w.t.Fatalf("%s does not do it", p.me.ID)
	return Change{}
}

func renews(c Change) bool   { return c.Put != nil && len(c.Lead) == 0 }
func claims(c Change) bool   { return c.Put != nil && len(c.Lead) > 0 }
func releases(c Change) bool { return c.Put == nil && len(c.Lead) > 0 }

var errLost = errors.New("no answer")

func TestOneDaemonLeadsAll(t *testing.T) {
	w := newWorld(t)
	a := w.join("a")
	w.run(350 * time.Millisecond)
	if n := w.leads(a); n < 14 || n > 15 {
		t.Errorf("%d groups after 350 ms", n)
	}
	w.run(200 * time.Millisecond)
	w.want("groups", len(a.begun), Groups)
	for g, term := range a.begun {
		w.want("the term", term, Term{Group: g, Fence: w.b.leaders[g].Revision, Number: 1})
		if left := a.Until(g) - w.now; left < int64(4400*time.Millisecond)-int64(every) ||
			left > int64(4500*time.Millisecond) {
			t.Errorf("group %d: for %v", g, time.Duration(left))
		}
	}
	before := len(w.b.log)
	w.run(10 * time.Second)
	if n := len(w.b.log) - before; n < 20 || n > 21 { // a renewal and a look each second
		t.Errorf("%d calls in ten seconds", n)
	}
	w.want("what happened", len(a.story), Groups)
}

// Until counts from before a renewal is sent, however late its answer comes; and only for the groups that it
// compared, in the terms that it compared.
func TestUntilIsThatOfTheRenewal(t *testing.T) {
	w, a, _ := settled(t, "b")
	c := a.until(renews)
	sent := w.now
	if err := a.Demote(w.now, 3); err != nil {
		t.Fatal(err)
	}
	w.b.leaders[5].Revision++ // another daemon came, and it is not known yet
	five := a.Until(5)
	w.b.leaders[5].Revision--
	done, s := w.b.commit(c)
	w.now += int64(900 * time.Millisecond)
	a.Answer(w.now, done, s, nil)
	w.want("until", a.Until(0)-sent, int64(4500*time.Millisecond))
	w.want("until of what is handed over", a.Until(3), int64(0))
	if a.Until(5) <= five {
		t.Error("it was not renewed")
	}

	// The answer shows another term than the one that was renewed, or another leader.
	for _, l := range []Leader{{Node: a.me, Revision: 9000}, {Node: Node{ID: "x"}, Revision: w.b.leaders[8].Revision}} {
		w, a, _ := settled(t)
		done, s = w.b.commit(a.until(renews))
		s.Leaders[8] = l
		a.Answer(w.now, done, s, nil)
		a.act()
		s.Leaders[8].Number++
		a.Saw(w.now, nil)
		a.next()
		a.Answer(w.now, true, s, nil)
		w.want("until of another term", a.Until(8), int64(0))
	}

	// The key of a group says that a leads it, and the renewal does not know: it was claimed by a call
	// whose answer is lost.
	w, b, _ := settled(t)
	w.b.leaders[7] = Leader{Revision: w.b.leaders[7].Revision + 1000}
	w.run(10 * time.Millisecond)
	b.groups[7].out = w.now + int64(time.Minute) // it does not claim again
	b.until(func(c Change) bool { return renews(c) && c.Leaders[7] == 0 })
	w.b.leaders[7] = Leader{Node: b.me, Number: 9, Revision: 5000}
	done, s = w.b.commit(b.call.Change)
	if !done {
		t.Fatal("not renewed")
	}
	b.Answer(w.now, done, s, nil)
	w.want("until of what was not compared", b.Until(7), int64(0))
	if c := b.next(); !renews(c) || c.Leaders[7] != 5000 {
		t.Errorf("%+v; want it to be renewed at once", c)
	}
}

// A daemon that stands still is replaced after TTL, counted from the answer that showed its last renewal. When
// it goes on it steps down from everything.
func TestADaemonThatStandsStill(t *testing.T) {
	w, a, rest := settled(t, "b")
	b := rest[0]
	w.b.leaders[2] = Leader{Node: Node{ID: "c"}, Revision: 50, Number: 3} // a third one, which was gone before b came
	a.frozen = true
	c := b.until(renews)
	w.b.nodes["a"] = NodeKey{Node: a.me, Revision: 9000} // its last renewal
	w.now += int64(500 * time.Millisecond)
	if done, s := w.b.commit(c); !done {
		t.Fatal("not renewed")
	} else {
		w.now += int64(400 * time.Millisecond)
		b.Answer(w.now, true, s, nil)
	}
	seen := b.nodes["a"].at
	w.want("seen", seen, w.now)
	w.run(time.Duration(seen + int64(TTL) - w.now))
	w.want("groups that are taken before: that of c", w.leads(b), 1)
	w.run(4 * time.Second)
	w.want("groups", w.leads(b), Groups)
	w.want("the number of a term", b.begun[0].Number, uint64(2))
	w.want("the number of a term", b.begun[2].Number, uint64(4))
	for id := range w.b.nodes {
		w.want("the key that is left", id, "b")
	}
	drops := 0
	for _, c := range w.b.log {
		drops += len(c.Drop)
	}
	w.want("keys that were deleted", drops, 1)
	w.want("until", a.Until(0) < w.now, true)
	a.frozen = false
	w.run(100 * time.Millisecond)
	w.want("what a leads", len(a.begun), 0)
	w.want("what a lost", a.stats.Lost, uint64(Groups))
	w.want("a again", w.b.nodes["a"].ID, "a")
	w.run(10 * time.Second)
	w.want("groups", w.leads(b), Groups)
}

// A daemon that slept believes that the leader does not renew. Its claim fails.
func TestAClaimOfADaemonThatSlept(t *testing.T) {
	w, a, rest := settled(t, "b")
	b := rest[0]
	b.frozen = true
	w.run(time.Hour)
	b.renewAt = w.now + 1 // so that it begins with the claim
	c := b.next()
	if !claims(c) || c.Nodes["a"] == 0 {
		t.Fatalf("%+v", c)
	}
	done, s := w.b.commit(c)
	w.want("done", done, false)
	b.Answer(w.now, done, s, nil)
	b.frozen = false
	w.run(10 * time.Second)
	w.want("groups", len(a.begun), Groups)
}

// An heir takes all groups that were handed to it in one Change, and at once even those that it has just
// handed over itself.
func TestAnHeirTakesAllAtOnce(t *testing.T) {
	w, a, rest := settled(t, "b")
	for _, p := range []*player{a, rest[0]} {
		for g := range Groups {
			if err := p.Demote(w.now, g); err != nil {
				t.Fatal(err)
			}
		}
		p.once()
		heir := map[*player]*player{a: rest[0], rest[0]: a}[p]
		handed := w.now
		heir.Saw(w.now, nil)
		c := heir.until(claims)
		w.want("groups", len(c.Lead), Groups)
		w.want("the wait", w.now-handed, int64(0))
		done, s := w.b.commit(c)
		w.want("done", done, true)
		heir.Answer(w.now, done, s, nil)
		heir.act()
		for g := range Groups {
			w.want("the term", heir.begun[g].Fence, w.b.leaders[g].Revision)
			w.want("until", heir.Until(g), w.now+int64(valid))
		}
		p.once()
	}
}

// The answer to a claim is lost. The daemon finds that it leads, and answers once a renewal has compared
// the key.
func TestAClaimWhoseAnswerIsLost(t *testing.T) {
	w := newWorld(t)
	a := w.join("a")
	c := a.until(claims)
	g := a.call.claims
	w.b.commit(c)
	w.now += int64(Patience)
	a.Answer(w.now, false, State{}, errLost)
	if c, wake := a.Next(w.now); c != nil || wake != w.now+int64(retry) {
		t.Errorf("it asks again at once: %+v", c)
	}
	w.now += int64(retry)
	c = a.next() // the renewal does not know of the write
	w.want("compares", c.Leaders[g], int64(0))
	done, s := w.b.commit(c)
	w.want("done", done, false)
	a.Answer(w.now, done, s, nil)
	a.act()
	w.want("the term", a.begun[g], Term{g, w.b.leaders[g].Revision, 1})
	w.want("until", a.Until(g), int64(0))
	w.run(100 * time.Millisecond)
	if a.Until(g) < w.now {
		t.Error("it is not renewed")
	}
	w.run(2 * time.Second)
	w.want("what happened", len(a.story), Groups)
}

// A daemon that has tried to hand a group over never leads on with that term, whether it was written or not.
func TestAHandOverWhoseAnswerIsLost(t *testing.T) {
	for _, written := range []bool{true, false} {
		w, a, rest := settled(t, "b")
		if err := a.Demote(w.now, 4); err != nil {
			t.Fatal(err)
		}
		c := a.until(releases)
		w.want("the heir", c.Lead[4].Heir, "b")
		rest[0].frozen = true
		if written {
			w.b.commit(c)
		}
		w.now += int64(Patience)
		a.Answer(w.now, false, State{}, errLost)
		for range 10 {
			w.now += int64(retry)
			c := a.next()
			if c.Leaders[4] != 0 && !releases(c) {
				t.Errorf("%+v", c)
			}
			if releases(c) || !written {
				a.Answer(w.now, false, State{}, errLost)
				continue
			}
			done, s := w.b.commit(c)
			a.Answer(w.now, done, s, nil)
			break
		}
		w.want("until", a.Until(4), int64(0))
		w.run(1500 * time.Millisecond)
		w.want("leads", a.Leads(4), false)
		w.want("nobody leads", w.b.leaders[4].ID, "")
		w.want("handed over", a.stats.Handed, uint64(1))
		w.run(time.Second)
		w.want("after 2 s, because nobody else has taken it", a.begun[4].Number, uint64(2))
		rest[0].frozen = false
		w.run(time.Second)
		w.want("groups of a", w.leads(a), Groups)
	}
}

// A group is handed over only when its Term can issue nothing any more, and then its heir has it at once.
func TestDemote(t *testing.T) {
	w, a, rest := settled(t, "b", "c")
	b, c := rest[0], rest[1]
	w.want("not its own", b.Demote(w.now, 1), ErrNotLeader)
	a.busy = true
	for _, g := range []int{1, 2} {
		if err := a.Demote(w.now, g); err != nil {
			t.Fatal(err)
		}
		w.want("until", a.Until(g), int64(0))
	}
	w.want("twice", a.Demote(w.now, 1), ErrNotLeader)
	w.run(10 * time.Second)
	w.want("groups", w.leads(a), Groups)
	w.want("renewed meanwhile", a.Until(4) > w.now, true)
	for _, g := range []int{1, 2} {
		a.Ended(g)
	}
	a.once()
	heirs := map[string]int{}
	for _, g := range []int{1, 2} {
		w.want("leader", w.b.leaders[g].ID, "")
		w.want("number", w.b.leaders[g].Number, uint64(1))
		heirs[w.b.leaders[g].Heir]++
	}
	if heirs["b"] == 0 || heirs["c"] == 0 || heirs["a"]+heirs[""] > 0 {
		t.Errorf("heirs: %v", heirs)
	}
	b.Saw(w.now, nil)
	b.once()
	w.want("what the heir has at once", len(b.begun), heirs["b"])
	w.run(20 * time.Millisecond)
	w.want("what is not b's", w.leads(b), heirs["b"])
	c.Saw(w.now, nil)
	w.run(20 * time.Millisecond)
	w.want("what the other heir has", w.leads(c), heirs["c"])
	w.want("begins", len(b.story)+len(c.story), 2)
}

func TestDemoteOfADaemonThatIsAlone(t *testing.T) {
	w, a, _ := settled(t)
	w.want("alone", a.Demote(w.now, 1), ErrAlone)
	b := w.join("b")
	w.run(2 * time.Second)
	b.frozen = true
	w.run(TTL + time.Second)
	w.want("beside a dead one", a.Demote(w.now, 1), ErrAlone)
	w.want("until", a.Until(1) > w.now, true)
}

// The heir has died: another daemon takes the group soon after.
func TestAnHeirThatIsDead(t *testing.T) {
	w, a, rest := settled(t, "b", "c")
	rest[0].frozen = true
	if err := a.Demote(w.now, 1); err != nil {
		t.Fatal(err)
	}
	a.once()
	w.want("the heir", w.b.leaders[1].Heir, "b")
	rest[1].Saw(w.now, nil)
	rest[1].once()
	w.want("taken at once", w.b.leaders[1].ID, "")
	w.run(150 * time.Millisecond)
	w.want("taken", w.b.leaders[1].ID, "c")
}

// Each of several daemons that start together gets its share. One that comes later gets none: nobody balances.
func TestSpreading(t *testing.T) {
	for n := 2; n <= 5; n++ {
		w := newWorld(t)
		for i := range n {
			w.join(fmt.Sprint("daemon", i))
		}
		w.run(3 * time.Second)
		late := w.join("late")
		w.run(10 * time.Second)
		for _, p := range w.all[:n] {
			if held := w.leads(p); held < Groups/n || held > (Groups+n-1)/n {
				t.Errorf("%d daemons, and %s leads %d", n, p.me.ID, held)
			}
		}
		w.want("a late one", w.leads(late), 0)
	}
}

// Without a store, a daemon answers until the moment passes, and asks four times a second. A renewal that
// succeeds later resumes the term.
func TestAnOutage(t *testing.T) {
	w, a, _ := settled(t)
	until, story := a.Until(0), len(a.story)
	calls := 0
	for end := w.now + int64(time.Minute); w.now < end; {
		c, wake := a.Next(w.now)
		if c == nil {
			w.now = wake
			continue
		}
		calls++
		a.Answer(w.now, false, State{}, errLost)
	}
	w.want("until", a.Until(0), until)
	if calls < 200 || calls > 250 {
		t.Errorf("%d calls in a minute", calls)
	}
	w.run(300 * time.Millisecond)
	w.want("resumed", a.Until(0) > w.now, true)
	w.want("what happened", len(a.story), story)
	w.want("failures", a.stats.Failures, uint64(calls))
}

// A daemon that stops hands everything over, is nobody's heir, and only reads from then on. Even a claim that is
// carried out late is handed over, and begins nothing.
func TestStop(t *testing.T) {
	w, a, rest := settled(t, "b", "c")
	a.Stop(w.now)
	w.run(100 * time.Millisecond)
	w.want("groups of a", w.leads(a), 0)
	w.want("a's key", w.b.nodes["a"], NodeKey{})
	for _, l := range w.b.leaders[:Groups] {
		if l.ID == "" && l.Heir != "b" && l.Heir != "c" {
			t.Errorf("%+v", l)
		}
	}
	w.run(2 * time.Second)
	w.want("groups of b", w.leads(rest[0]), Groups/2)
	w.want("groups of c", w.leads(rest[1]), Groups/2)
	story := len(a.story)
	w.b.leaders[9] = Leader{Node: a.me, Number: 5, Revision: 8000}
	w.run(2 * time.Second)
	w.want("what happened", len(a.story), story)
	if l := w.b.leaders[9]; l.ID == "a" || l.ID == "" || l.Number != 6 {
		t.Errorf("%+v", l)
	}
	w.want("it reads", w.now-a.View().At <= int64(every), true)
	leader, ok := a.View().Leader(0)
	w.want("a leader", ok && leader.Redis != "", true)
	rest[0].Stop(w.now)
	rest[1].Stop(w.now)
	w.run(10 * time.Second)
	w.want("keys", len(w.b.nodes), 0)
	if _, ok := a.View().Leader(0); ok {
		t.Error("somebody leads")
	}
}

// Keys of daemons that led nothing do not pile up.
func TestKeysOfDeadDaemons(t *testing.T) {
	w, _, rest := settled(t, "b", "c", "d")
	for _, p := range rest[:2] {
		p.frozen = true
	}
	w.run(stale - time.Second)
	w.want("keys", len(w.b.nodes), 4)
	w.run(3 * time.Second)
	w.want("keys", len(w.b.nodes), 2)
	rest[0].frozen = false
	w.run(2 * time.Second)
	w.want("keys after one was only asleep", len(w.b.nodes), 3)
}

// Daemons stop one soon after another, as in a roll-out. The second one's blocks are given back meanwhile, and
// it hands nothing over to the first one, of whose end it had not heard: nobody would lead for a while.
func TestAHandOverToWhoIsStillThere(t *testing.T) {
	for what, begin := range map[string]func(w *world, p *player){
		"stop": func(w *world, p *player) { p.Stop(w.now) },
		"demote": func(w *world, p *player) {
			for g := range p.begun {
				if err := p.Demote(w.now, g); err != nil {
					t.Error(err)
				}
			}
		},
	} {
		w := newWorld(t)
		first, second := w.join("a"), w.join("b")
		w.join("c")
		w.run(10 * time.Second)
		first.Stop(w.now)
		first.once()
		w.want(what+": what the first one leads", w.leads(first), 0)
		second.busy = true
		begin(w, second)
		second.once()
		ended := 0
		for g := range Groups {
			if second.groups[g].phase == ending {
				second.Ended(g)
				ended++
			}
		}
		second.once()
		heirs := map[string]int{}
		for _, l := range w.b.state().Leaders {
			heirs[l.Heir]++
		}
		w.want(what+": groups that ended at all", ended > 0, true)
		w.want(what+": groups with the first one as their heir", heirs["a"], 0)
	}
}

// While a daemon that stops gives blocks back, it renews, and claims nothing.
func TestStopTakesTime(t *testing.T) {
	w, a, rest := settled(t, "b")
	a.busy, rest[0].frozen = true, true
	w.b.leaders[4] = Leader{Number: 1, Revision: 9000} // to be claimed
	a.Saw(w.now, nil)
	a.once()
	a.Ended(4)
	a.Stop(w.now)
	for range 10 {
		w.run(time.Second)
		w.want("a's key", w.b.nodes["a"].Revision != 0 && w.now-a.stats.Renewed <= int64(every), true)
	}
	w.want("groups", w.leads(a), Groups-1)
	w.want("not claimed", w.b.leaders[4].ID, "")
	a.busy = false
	for g := range Groups {
		a.Ended(g)
	}
	for range 30 { // the hand-over fails for a while, but not the renewals
		c := a.until(func(Change) bool { return true })
		if releases(c) {
			a.Answer(w.now, false, State{}, errLost)
		} else {
			done, s := w.b.commit(c)
			a.Answer(w.now, done, s, nil)
		}
	}
	w.want("renewed", w.now-a.stats.Renewed <= int64(every), true)
	w.run(300 * time.Millisecond)
	w.want("groups", w.leads(a), 0)
	w.want("a's key", w.b.nodes["a"], NodeKey{})
	w.want("handed over", a.stats.Handed, uint64(Groups-1))
}

// A daemon that was seen once only may be dead for long: one that renews is the better heir.
func TestAnHeirMustHaveRenewed(t *testing.T) {
	w, a, _ := settled(t, "c")
	w.b.nodes["b"] = NodeKey{Node: Node{ID: "b"}, Revision: 3} // from long ago
	a.Saw(w.now, nil)
	a.once()
	w.want("known", len(a.View().Nodes), 3)
	if err := a.Demote(w.now, 1); err != nil {
		t.Fatal(err)
	}
	w.want("the heir", a.until(releases).Lead[1].Heir, "c")
}

// A group that a read shows to be this daemon's is renewed at once. And each daemon begins with another group.
func TestAGroupThatAReadShows(t *testing.T) {
	w, a, _ := settled(t)
	w.run(500 * time.Millisecond)
	w.b.leaders[2] = Leader{Node: a.me, Number: 2, Revision: 9000}
	w.want("lost", a.Until(2) > w.now, true)
	a.Saw(w.now, nil)
	a.once() // it ends, and begins again
	w.want("the term", a.begun[2], Term{2, 9000, 2})
	w.want("until", a.Until(2) > w.now, true)
	w.want("lost", a.stats.Lost, uint64(1))
	w.want("handed over", a.stats.Handed, uint64(0))

	for _, id := range []string{"x", "y", "z"} {
		p := newWorld(t).join(id)
		p.until(claims)
		p.w.want("the first claim", p.call.claims, GroupOf(id))
	}
}
