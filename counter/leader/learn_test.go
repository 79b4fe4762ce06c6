package leader

import (
	"testing"
	"time"
)

// What a Watch shows need not be read: an heir claims at once, and all know who leads.
func TestWhatAWatchShows(t *testing.T) {
	w, a, rest := settled(t, "b")
	b := rest[0]
	b.once()
	for _, g := range []int{1, 2} {
		if err := a.Demote(w.now, g); err != nil {
			t.Fatal(err)
		}
	}
	a.once()
	written := map[int]Leader{1: w.b.leaders[1], 2: w.b.leaders[2]}
	before := len(w.b.log)
	b.Saw(w.now, written)
	c := b.next()
	w.want("the heir claims both", claims(c) && len(c.Lead) == 2 && len(w.b.log) == before, true)

	// While its call is under way it sees the answer before it comes, and then an older one.
	done, s := w.b.commit(c)
	claimed := map[int]Leader{1: w.b.leaders[1], 2: w.b.leaders[2]}
	b.Saw(w.now, claimed)
	b.Saw(w.now, written)
	w.want("it waits for the answer", len(b.Events()), 0)
	b.Answer(w.now, done, s, nil)
	b.act()
	w.want("its groups", len(b.begun), 2)
	w.want("until", b.Until(1) > w.now, true)
	b.Saw(w.now, written)
	b.act()
	w.want("an old key ends nothing", len(b.begun), 2)

	before = len(w.b.log)
	a.Saw(w.now, claimed)
	leader, _ := a.View().Leader(1)
	w.want("a knows the leader", leader.ID, "b")
	a.once()
	w.want("and reads nothing", len(w.b.log), before)
}

// A call whose answer is lost: what was seen meanwhile counts.
func TestWhatAWatchShowsInsteadOfAnAnswer(t *testing.T) {
	w, a, _ := settled(t, "b")
	c := a.until(renews)
	w.b.leaders[3] = Leader{Node: Node{ID: "b"}, Number: 2, Revision: 9000}
	a.Saw(w.now, map[int]Leader{3: w.b.leaders[3]})
	a.Saw(w.now, map[int]Leader{3: {Heir: "c", Number: 1, Revision: 8000}}) // late
	w.b.commit(c)
	a.Answer(w.now, false, State{}, errLost)
	a.act()
	w.want("the leader", a.View().Leaders[3].ID, "b")
	_, leads := a.begun[3]
	w.want("it leads group 3", leads, false)
}

// A leader whose key was never read may seem to be dead: it is read first. So is all before the first answer.
func TestALeaderThatNobodyKnows(t *testing.T) {
	w, a, _ := settled(t)
	w.run(500 * time.Millisecond)
	a.once()
	before := len(w.b.log)
	w.b.leaders[3] = Leader{Node: Node{ID: "x"}, Number: 2, Revision: 9000}
	w.b.nodes["x"] = NodeKey{Node: Node{ID: "x"}, Revision: 9000}
	a.Saw(w.now, map[int]Leader{3: w.b.leaders[3]})
	w.now += int64(time.Millisecond)
	a.once()
	if c := w.b.log[before]; len(c.Lead) > 0 || c.Put != nil {
		t.Errorf("%+v", c)
	}
	w.want("then it is known", a.View().Leaders[3].ID, "x")

	fresh := w.join("fresh")
	fresh.Saw(w.now, map[int]Leader{3: {Heir: "fresh", Revision: 9001}})
	w.want("before the first answer", fresh.View().Leaders[3].Heir, "")
}

// Groups that end together are handed over together, unless one of them takes long. A daemon that stops is
// gone with its last group: nobody takes it for an heir.
func TestGroupsAreHandedOverTogether(t *testing.T) {
	w, a, _ := settled(t, "b")
	a.once()
	a.busy = true
	for _, g := range []int{1, 2} {
		if err := a.Demote(w.now, g); err != nil {
			t.Fatal(err)
		}
	}
	a.act()
	a.Ended(1)
	before := len(w.b.log)
	a.once()
	for _, c := range w.b.log[before:] {
		w.want("what is handed over while one ends", len(c.Lead), 0)
	}
	a.renewAt = w.now + int64(time.Minute)
	if _, wake := a.Next(w.now); wake > w.now+int64(gather) {
		t.Errorf("it waits for %v", time.Duration(wake-w.now))
	}
	w.now += int64(gather)
	w.want("what is sealed by then", len(a.until(releases).Lead), 1)

	w, a, _ = settled(t, "b")
	a.busy = true
	a.Stop(w.now)
	a.act()
	a.Ended(1)
	w.want("not while others end", len(a.until(releases).Drop), 0)

	w, a, _ = settled(t, "b")
	a.Halt(w.now)
	c := a.until(releases)
	w.want("all groups", len(c.Lead), Groups)
	w.want("and the key", len(c.Drop) == 1 && c.Drop[0] == "a" && c.Nodes["a"] == w.b.nodes["a"].Revision, true)
}

// A daemon that hands many groups over ends a few at a time: the others are led until it is their turn, also if
// the blocks of the first ones take long to give back, or the answer to their hand-over is lost. Its key stays
// until the last of them is handed over.
func TestGroupsEndAFewAtATime(t *testing.T) {
	for what, begin := range map[string]func(p *player){
		"stop": func(p *player) { p.Stop(p.w.now) },
		"demote": func(p *player) {
			for g := range Groups {
				if err := p.Demote(p.w.now, g); err != nil {
					t.Error(err)
				}
			}
		},
	} {
		w, a, rest := settled(t, "b")
		a.busy = true
		begin(a)
		led := func() (n int) {
			for g := range Groups {
				if a.Until(g) > w.now {
					n++
				}
			}
			return n
		}
		w.run(20 * time.Second)
		w.want(what+": groups that are led while the first ones end", led(), Groups-atOnce)
		if err := a.Demote(w.now, Groups-1); err != ErrNotLeader {
			t.Errorf("%s: asked twice: %v", what, err)
		}
		for round := 1; w.leads(a) > 0; round++ {
			for g := range Groups {
				a.Ended(g)
			}
			c := a.until(releases)
			w.want(what+": groups of one change", len(c.Lead), atOnce)
			w.want(what+": the key is deleted", len(c.Drop) > 0, what == "stop" && round == Groups/atOnce)
			done, s := w.b.commit(c)
			if round == 2 { // and a watch shows it
				a.Answer(w.now, false, State{}, errLost)
				a.Saw(w.now, map[int]Leader{})
				a.Next(w.now)
				for g := range c.Lead {
					a.Saw(w.now, map[int]Leader{g: w.b.leaders[g]})
				}
			} else {
				a.Answer(w.now, done, s, nil)
			}
			a.act()
			w.want(what+": groups that are led", led(), max(0, Groups-atOnce*(round+1)))
			rest[0].Saw(w.now, nil)
			rest[0].once()
			w.want(what+": groups of the heir", w.leads(rest[0]), atOnce*round)
		}
	}
}
