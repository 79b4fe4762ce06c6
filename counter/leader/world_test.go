package leader

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestMachine plays the scripts: daemons on one board, and what each of them does, see world.
func TestMachine(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.script")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".script"), func(t *testing.T) {
			script.Run(t, path, func(t *testing.T, play func(script.Do)) {
				w := &world{t: t, b: newBoard(), now: int64(time.Hour), names: map[string]*player{}}
				calls := w.calls()
				play(func(words []string) string { return calls.Do(t, words, w.said) })
			})
		})
	}
}

// A world is a board, a clock, and the daemons that play.
type world struct {
	t     *testing.T
	b     *board
	now   int64
	all   []*player
	names map[string]*player
	wrote []string // the names of changes, since a command began
}

// A player drives a Machine.
type player struct {
	*Machine
	w            *world
	frozen, slow bool
	clock        *time.Duration
	begun        map[int]Term // that have not ended
	happened     []Event      // since a command began
	calls        map[string]int

	committed, done bool // the answer on the way
	state           State
}

// epoch is the true time minus the moments of the world.
const epoch = int64(1_790_000_000 * time.Second)

func (w *world) calls() script.Calls {
	return script.Calls{
		"players": w.names,
		// join a [ADDRESS]: another daemon; its node key is written when time passes
		"join": w.join,
		// run 2s: time passes, and all who are not frozen do what they want, with answers at once; pass 2s: nobody does
		"run": w.run, "pass": func(d time.Duration) { w.now += int64(d) },
		// a once: it does all that it wants to do now; a until claims: all before the next Change that claims, renews,
		// releases or reads; a next: the Change that it wants now
		"once": (*player).once, "until": (*player).until, "next": (*player).next,
		// a commit: the Change under way is carried out; its answer is on the way; a answer, a lose: the answer comes,
		// after commit if need be, or an error does; a sees 3 = b 7 ...: the answer to come says so
		"commit": underWay((*player).commit), "answer": underWay((*player).hear), "lose": underWay((*player).lose),
		"sees": func(p *player, g int, _, id string, term uint64, revision int64, heir ...string) {
			p.state.Leaders[g] = leaderOf(id, term, revision, heir)
		},
		// group 3 = b 7 ...: somebody writes the key of a group: ID, "-" for none, TERM, REVISION and HEIR
		"group": func(g int, _, id string, term uint64, revision int64, heir ...string) {
			w.b.leaders[g] = leaderOf(id, term, revision, heir)
		},
		// node b 9000 ADDRESS: and a node key; board: all that is there
		"node": func(id string, revision int64, address ...string) {
			w.b.nodes[id] = NodeKey{Node: Node{id, strings.Join(address, "")}, Revision: revision}
		},
		"board": w.b.String,
		// a saw [1 2]: what a watch shows: the keys of groups, or others; a saw-key 3 = b 7 ...: this one
		"saw": (*player).saw,
		"saw-key": func(p *player, g int, _, id string, term uint64, revision int64, heir ...string) {
			p.Saw(w.now, map[int]Leader{g: leaderOf(id, term, revision, heir)})
		},
		// a freezes, a thaws: it stands still, as a process that is stopped
		"freezes": func(p *player) { p.frozen = true },
		"thaws":   func(p *player) { p.frozen = false },
		// a slow, a quick: what is left of a term is given back only at "a ended 1 2"
		"slow":  func(p *player) { p.slow = true },
		"quick": func(p *player) { p.slow = false },
		"ended": func(p *player, groups ...int) {
			for _, g := range groups {
				p.Ended(g)
			}
		},
		"demote": (*player).demote,
		"stop":   func(p *player) { p.Stop(w.now) },
		"halt":   func(p *player) { p.Halt(w.now) },
		// a clock 1h: how far ahead its clock is; without it, it has none
		"clock": func(p *player, d time.Duration) { p.clock = &d },
		// a timed [7]: there are timestamps, but in those groups
		"timed": func(p *player, but ...int) {
			for g := Groups; g < MaxGroups; g++ {
				if !slices.Contains(but, g) {
					p.SetTimed(g)
				}
			}
		},
		// a show: what it leads, and until when
		"show": (*player).show,
	}
}

func (w *world) join(id string, address ...string) {
	p := &player{Machine: NewMachine(Node{ID: id, Redis: append(address, id+":1")[0]}), w: w, begun: map[int]Term{},
		calls: map[string]int{}}
	w.all, w.names[id] = append(w.all, p), p
}

// leaderOf is what a Board holds of a group.
func leaderOf(id string, term uint64, revision int64, heir []string) Leader {
	l := Leader{Number: term, Revision: revision, Heir: strings.Join(heir, "")}
	if id != "-" {
		l.Node = Node{id, id + ":1"}
	}
	return l
}

var errLost = errors.New("no answer")

// underWay is for what can happen only to a Change under way.
func underWay(happens func(p *player)) func(p *player) string {
	return func(p *player) string {
		if p.call == nil {
			return "nothing is under way"
		}
		happens(p)
		return ""
	}
}

func (p *player) commit() {
	p.committed = true
	p.done, p.state = p.w.b.commit(p.call.Change)
}

func (p *player) hear() {
	if p.committed {
		p.Answer(p.w.now, p.done, p.state, nil)
	} else {
		p.answer()
	}
	p.committed = false
}

func (p *player) lose() {
	p.Answer(p.w.now, false, State{}, errLost)
	p.committed = false
}

// saw shows the keys of groups as they are, or nothing.
func (p *player) saw(groups ...int) {
	var saw map[int]Leader
	for _, g := range groups {
		if saw == nil {
			saw = map[int]Leader{}
		}
		saw[g] = p.w.b.leaders[g]
	}
	p.Saw(p.w.now, saw)
}

func (p *player) demote(groups ...int) string {
	var said []string
	for _, g := range groups {
		said = append(said, fmt.Sprint(cmp.Or(p.Demote(p.w.now, g), errors.New("ok"))))
	}
	return strings.Join(slices.Compact(said), ", ")
}

// act does what a driver does about Events.
func (p *player) act() {
	for _, e := range p.Events() {
		old, runs := p.begun[e.Group]
		switch {
		case e.Begins && !runs:
			p.begun[e.Group] = e.Term
		case !e.Begins && runs && old == e.Term:
			if p.Until(e.Group) != 0 {
				p.w.t.Errorf("%s may still answer after the end of %v", p.me.ID, e)
			}
			if delete(p.begun, e.Group); !p.slow {
				p.Ended(e.Group)
			}
		default:
			p.w.t.Errorf("%s: %+v, and before it was %v %v", p.me.ID, e, runs, old)
		}
		p.happened = append(p.happened, e)
	}
}

// ask asks what to do now.
func (p *player) ask() (*Change, int64) {
	p.act()
	if p.clock != nil {
		p.Tell(p.w.now, epoch+p.w.now+int64(*p.clock))
	}
	return p.Next(p.w.now)
}

// answer carries the Change under way out, with an answer at once.
func (p *player) answer() {
	c := p.call.Change
	done, s := p.w.b.commit(c)
	p.calls[kindOf(c)]++
	p.w.wrote = append(p.w.wrote, p.me.ID+" "+c.short(done))
	p.Answer(p.w.now, done, s, nil)
}

func (p *player) once() {
	for range 100 {
		c, wake := p.ask()
		if c == nil {
			if wake <= p.w.now {
				p.w.t.Fatalf("%s wants nothing, and to be asked again in the past", p.me.ID)
			}
			return
		}
		p.answer()
	}
	p.w.t.Fatalf("%s never rests", p.me.ID)
}

func (p *player) next() string {
	c, wake := p.ask()
	if c == nil {
		return fmt.Sprintf("nothing for %v", time.Duration(wake-p.w.now))
	}
	return c.String()
}

func (p *player) until(kind string) string {
	began := p.w.now
	for range 1000 {
		c, wake := p.ask()
		if c == nil {
			p.w.now = wake
		} else if kindOf(*c) == kind {
			return fmt.Sprintf("after %v: %v", time.Duration(p.w.now-began), c)
		} else {
			p.answer()
		}
	}
	p.w.t.Fatalf("%s never %s", p.me.ID, kind)
	return ""
}

// run lets time pass. In it, no two players may answer requests of one group.
func (w *world) run(d time.Duration) string {
	for end := w.now + int64(d); w.now < end; w.now += int64(10 * time.Millisecond) {
		for _, p := range w.all {
			if !p.frozen {
				p.once()
			}
		}
		for g := range MaxGroups {
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
	w.wrote = nil
	lines := []string{w.said()}
	for _, p := range w.all {
		var calls []string
		for _, kind := range slices.Sorted(maps.Keys(p.calls)) {
			calls = append(calls, fmt.Sprint(kind, " ", p.calls[kind]))
		}
		if clear(p.calls); len(calls) > 0 {
			lines = append(lines, p.me.ID+": "+strings.Join(calls, ", "))
		}
	}
	return strings.Join(lines, "\n")
}

// said is what was done and what happened since it was called last.
func (w *world) said() string {
	lines := w.wrote
	w.wrote = nil
	for _, p := range w.all {
		p.act()
		var order []string
		of := map[string][]int{}
		for _, e := range p.happened {
			what := map[bool]string{true: "begins", false: "ends"}[e.Begins]
			if e.Lost {
				what = "loses"
			}
			if what = fmt.Sprintf("%s %s term %d", p.me.ID, what, e.Number); of[what] == nil {
				order = append(order, what)
			}
			of[what] = append(of[what], e.Group)
		}
		for _, what := range order {
			lines = append(lines, what+" of "+list(of[what]))
		}
		p.happened = nil
	}
	return strings.Join(lines, "\n")
}

// lines writes what has which groups.
func lines(format string, of map[string][]int) (lines []string) {
	for _, what := range slices.Sorted(maps.Keys(of)) {
		lines = append(lines, fmt.Sprintf(format, list(of[what]), what))
	}
	return lines
}

// list writes groups as 0-3 5.
func list(groups []int) string {
	slices.Sort(groups)
	var words []string
	for i := 0; i < len(groups); i++ {
		from := groups[i]
		for i+1 < len(groups) && groups[i+1] == groups[i]+1 {
			i++
		}
		if words = append(words, fmt.Sprint(from)); groups[i] > from {
			words[len(words)-1] += fmt.Sprint("-", groups[i])
		}
	}
	return strings.Join(words, " ")
}

func kindOf(c Change) string {
	switch {
	case c.Put != nil && len(c.Lead) > 0:
		return "claims"
	case c.Put != nil:
		return "renews"
	case len(c.Lead) > 0:
		return "releases"
	case len(c.Drop) > 0:
		return "drops"
	}
	return "reads"
}

// short says what a Change writes.
func (c Change) short(done bool) string {
	groups := map[string][]int{}
	for _, g := range slices.Sorted(maps.Keys(c.Lead)) {
		l := c.Lead[g]
		of := fmt.Sprintf("term %d for %s", l.Number, l.Heir)
		if l.ID != "" {
			of = fmt.Sprintf("term %d of %s", l.Number, l.Node)
		}
		groups[of] = append(groups[of], g)
	}
	text := kindOf(c) + strings.Join(lines(", %s: %s", groups), "")
	if c.Stamp != 0 {
		text += ", with its time"
	}
	if len(c.Drop) > 0 && len(c.Lead) > 0 || kindOf(c) == "drops" {
		text += fmt.Sprint(", drops ", c.Drop)
	}
	if !done {
		text += ": too late"
	}
	return text
}

// String says what a Change compares too.
func (c Change) String() string {
	return fmt.Sprintf("%s, if %v %v", c.short(true), c.Leaders, c.Nodes)
}

// String is what a board holds: groups that differ only in their revision stand together.
func (b *board) String() string {
	groups := map[string][]int{}
	for g, l := range b.leaders {
		if l != (Leader{}) {
			what := fmt.Sprintf("term %d of %q, heir %q", l.Number, l.ID, l.Heir)
			groups[what] = append(groups[what], g)
		}
	}
	nodes := "nodes: " + strings.Join(slices.Sorted(maps.Keys(b.nodes)), " ")
	return strings.Join(append(lines("%s: %s", groups), nodes), "\n")
}

// show is what a daemon knows and counts.
func (p *player) show() string {
	at := func(moment int64) string {
		if moment == 0 {
			return "never"
		}
		return fmt.Sprint(time.Duration(moment - p.w.now))
	}
	until, leaders := map[string][]int{}, map[string][]int{}
	for g := range MaxGroups {
		if p.Leads(g) || p.Until(g) != 0 {
			until[at(p.Until(g))] = append(until[at(p.Until(g))], g)
		}
		if n, ok := p.View().Leader(g); ok {
			leaders[n.ID] = append(leaders[n.ID], g)
		}
	}
	v := p.View()
	said := append(lines("leads %s until %s", until), lines("knows that %[2]s leads %[1]s", leaders)...)
	if p.clock != nil {
		offset, known := v.Time(epoch + int64(*p.clock))
		said = append(said, fmt.Sprintf("the time is %v away (%v), its clock %v apart",
			time.Duration(offset-epoch).Round(look), known, v.Apart.Round(look)))
	}
	s := p.Stats()
	return strings.Join(append(said, fmt.Sprintf("%d nodes, read %s, renewed %s; terms %d, lost %d, handed over %d, "+
		"renewals %d, failures %d", len(v.Nodes), at(v.At), at(s.Renewed), s.Terms, s.Lost, s.Handed, s.Renewals,
		s.Failures)), "\n")
}
