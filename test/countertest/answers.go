package countertest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

var update = flag.Bool("update-answers", false, "write what the stores answer now to testdata (use -p 1)")

var atFile sync.Mutex // held while the file of answers is read or written

// A Subject is a kind of store, and what Answers needs to bring it into every condition.
type Subject struct {
	Kind       string                  // as the file of answers names it
	Definition counter.Definition      // of orders; another one differs in Start
	Wrong      []counter.Definition    // that the store refuses
	Plain      bool                    // the store is one of RunPlain
	Open       func(operator bool) any // a counter.Store that is a counter.Admin too
	Record     func() string           // all that is recorded of orders
	Put        func(text string)       // makes it what Record once returned; empty = nothing
	Damage     func()
	Spoil      func()            // puts a record there that must not be written over; nil = there is none
	Bad        map[string]func() // other ways to make it one that cannot be read
	Copy       func()            // makes it one that another machine or server wrote; nil = no store can tell
	Calls      func() string     // the calls that the store's server or disk got since Calls was called last
	Words      map[string]string // texts that differ from run to run, and what stands for them
	More       func(say func(step string, answer any, err error))
	Down       func() any // ends the server, and opens another store; nil = there is no server
}

type client interface {
	counter.Store
	counter.Admin
}

// Answers compares everything that a store can answer, the records that it writes and its calls to the server
// with testdata. It leaves the subject without a server.
func Answers(t *testing.T, s Subject) {
	a := &answers{t: t, s: s, stage: NewStage(t), said: map[string]string{}}
	a.stage.Words = s.Words
	a.life()
	a.ends()
	a.faults()
	if s.More != nil {
		s.More(a.say)
	}
	if s.Down != nil {
		a.down = true
		a.all("without a server", s.Down().(client), true)
	}
	a.compare()
}

type answers struct {
	t      *testing.T
	s      Subject
	stage  *Stage
	record string   // that was said last
	down   bool     // there is no server
	late   []string // steps that took so long that other calls may have been due
	steps  []string
	said   map[string]string
}

func (a *answers) open(operator bool) client {
	c := a.s.Open(operator).(client)
	a.t.Cleanup(func() { c.Close() })
	return c
}

func (a *answers) err(_ any, err error) error { return err }

var (
	filler = regexp.MustCompile(`\n{9,}`)
	kinds  = map[string]error{
		"unknown": counter.ErrUnknown, "ended": counter.ErrEnded, "retired": counter.ErrRetired,
		"foreign": counter.ErrForeign, "damaged": counter.ErrDamaged, "unusable": counter.ErrUnusable,
		"stale": counter.ErrStale, "order": counter.ErrOrder, "deposed": counter.ErrDeposed,
		"unavailable": counter.ErrUnavailable, "canceled": context.Canceled,
	}
)

// say notes the answer to a step.
func (a *answers) say(step string, answer any, err error) {
	a.t.Helper()
	if _, ok := a.said[step]; ok {
		a.t.Errorf("two steps are %q", step)
	}
	a.steps = append(a.steps, step)
	a.said[step] = a.text(answer, err)
}

// Said is an answer, and an error with its kinds before it.
func Said(answer any, err error) string {
	text := fmt.Sprint(answer)
	if err == nil {
		return cmp.Or(text, "ok")
	}
	var of []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		if errors.Is(err, kinds[k]) {
			of = append(of, k)
		}
	}
	return strings.TrimSpace(fmt.Sprintf("%s [%s] %v", text, strings.Join(of, " "), err))
}

func (a *answers) text(answer any, err error) string {
	text := a.stage.Constant(Said(answer, err))
	text = filler.ReplaceAllStringFunc(text, func(lines string) string { return fmt.Sprintf("\n(and %d)", len(lines)-1) })
	return strings.NewReplacer("\n", `\n`, "\x00", `\0`).Replace(text)
}

func shown(r counter.Record) string {
	if r.Name == "" {
		return ""
	}
	definition := strings.TrimSuffix(fmt.Sprint(r.Definition), " { 0 0s}}") // of plain numbers
	if !r.Timed() {
		definition += "}"
	}
	return fmt.Sprintf("%s next=%d floor=%d retired=%v", definition, r.Next, r.Floor, r.Retired)
}

func block(b counter.Block) string {
	if b == (counter.Block{}) {
		return ""
	}
	return fmt.Sprint(b.Lo, "-", b.Hi)
}

// all says what every call answers while something is wrong: those with the same answer once.
func (a *answers) all(when string, c client, define bool) {
	var calls []string // their answers
	same := map[string]string{}
	say := func(call string, answer any, err error) {
		text := a.text(answer, err)
		if same[text] == "" {
			calls = append(calls, text)
		}
		same[text] += call + " "
	}
	if d := a.s.Definition; define {
		r, err := c.Define(bg, d)
		say("define", shown(r), err)
	}
	b, err := c.Reserve(bg, "orders", 3)
	say("reserve", block(b), err)
	if !a.down { // some stores ask for it again and again
		say("return", "", c.Return(bg, "orders", counter.Block{Lo: 1, Hi: 5, Token: "t"}, 3))
	}
	r, err := c.Show(bg, "orders")
	say("show", shown(r), err)
	list, err := c.List(bg)
	say("list", "", err)
	_, told, err := c.Changes(bg, "")
	say("changes", "", err)
	for i, list := range [][]counter.Record{list, told} {
		for _, r := range list {
			if r.Name == "orders" {
				say([]string{"listed", "told"}[i], shown(r), r.Fault)
			}
		}
	}
	_, err = c.Revive(bg, a.s.Definition, 0)
	say("revive", "", err)
	_, err = c.Behind(bg)
	say("behind", "", err)
	for _, text := range calls {
		a.say(when+": "+strings.TrimSpace(same[text]), text, nil)
	}
}

// counted says what one call cost, and what is recorded after it.
func (a *answers) counted(step string, answer any, err error) {
	calls := a.s.Calls()
	a.say(step, answer, err)
	a.say(step+": calls", calls, nil)
	if record := a.s.Record(); record != a.record {
		a.record = record
		a.say(step+": record", record, nil)
	}
	a.s.Calls()
}

// life is that of a sequence without troubles.
func (a *answers) life() {
	began := time.Now()
	c, daemon, d := a.open(true), a.open(false), a.s.Definition
	a.all("before it is defined", daemon, false)
	_, err := c.Raise(bg, "orders", 5)
	a.say("before it is defined: raise", "", err)
	_, err = c.Retire(bg, "orders")
	a.say("before it is defined: retire", "", err)
	for i, wrong := range append(a.s.Wrong, counter.Definition{Name: "orders"}) {
		_, err = c.Define(bg, wrong)
		a.say(fmt.Sprint("a wrong definition ", i), "", err)
	}
	long := d
	for _, name := range []string{"", strings.Repeat("n", 65)} {
		long.Name = name
		_, err = c.Define(bg, long)
		a.say(fmt.Sprintf("define with a name of %d bytes", len(name)), "", err)
		_, err = c.Reserve(bg, name, 1)
		a.say(fmt.Sprintf("reserve with a name of %d bytes", len(name)), "", err)
	}
	_, _ = c.List(bg)
	a.s.Calls()
	r, err := c.Define(bg, d)
	a.counted("define", shown(r), err)
	_, _ = daemon.Show(bg, "orders")
	_, _, _ = daemon.Changes(bg, "")
	a.s.Calls()
	var blocks []counter.Block
	for i := range 3 {
		b, err := daemon.Reserve(bg, "orders", 10)
		a.counted(fmt.Sprint("reserve ", i), block(b), err)
		blocks = append(blocks, b)
	}
	a.counted("return stale", "", daemon.Return(bg, "orders", blocks[0], blocks[0].Lo))
	last := blocks[2]
	a.counted("return no value", "", daemon.Return(bg, "orders", last, last.Hi+1))
	a.counted("return", "", daemon.Return(bg, "orders", last, last.Lo+4))
	_, _, _ = daemon.Changes(bg, "") // signs its note, if the last one is ten seconds old, and none is due below
	a.s.Calls()
	r, err = c.Raise(bg, "orders", 100)
	a.counted("raise", shown(r), err)
	for _, v := range []uint64{0, d.Max + 1} {
		_, err = c.Raise(bg, "orders", v)
		a.say(fmt.Sprint("raise to ", v), "", err)
	}
	now, _, err := daemon.Changes(bg, "")
	a.counted("changes", "", err)
	_, list, err := daemon.Changes(bg, now)
	a.counted("no changes", len(list), err)
	if time.Since(began) > 10*time.Second { // a busy machine: the note may have been due after all
		a.late = []string{"changes: calls", "no changes: calls"}
	}
	other := d
	other.Start += 50
	r, err = daemon.Define(bg, other)
	a.counted("define it otherwise", shown(r), err)
	_, err = c.Revive(bg, d, 200)
	a.say("revive what is not damaged", "", err)
	a.say("notes of daemons", "", a.err(c.Behind(bg)))
	if l, ok := c.(counter.Lossy); ok {
		text, err := l.NotPromised(bg)
		a.say("not promised", text, err)
	}
	a.say("closing", "", cmp.Or(c.Close(), daemon.Close()))
	_, err = c.Reserve(bg, "orders", 1)
	a.say("reserve from a closed store", "", err)
}

// ends shows a sequence without values, and a retired one.
func (a *answers) ends() {
	c := a.open(true)
	_, _ = c.List(bg)
	a.s.Calls()
	_, err := c.Raise(bg, "orders", a.s.Definition.Max)
	a.counted("raise to the end", "", err)
	for i := range 2 {
		b, err := c.Reserve(bg, "orders", 10)
		a.counted(fmt.Sprint("reserve at the end ", i), block(b), err)
	}
	r, err := c.Retire(bg, "orders")
	a.counted("retire", shown(r), err)
	a.all("retired", c, true)
	_, err = c.Raise(bg, "orders", 500)
	a.say("retired: raise", "", err)
}

// faults is what becomes of a record that is restored, deleted, damaged or copied.
func (a *answers) faults() {
	a.s.Put("")
	operator, daemon := a.open(true), a.open(false)
	for _, c := range []client{operator, daemon} {
		if _, err := c.Define(bg, a.s.Definition); err != nil {
			a.t.Fatal(err)
		}
	}
	reserve := func() {
		if _, err := daemon.Reserve(bg, "orders", 10); err != nil {
			a.t.Fatal(err)
		}
	}
	reserve()
	old := a.s.Record()
	reserve()
	a.s.Put(old)
	a.all("set back", daemon, true)
	a.s.Put("")
	a.all("deleted", daemon, true)
	_, err := daemon.Raise(bg, "orders", 1)
	a.say("deleted: raise", "", err)
	_, err = operator.Define(bg, a.s.Definition)
	a.say("deleted: define by an operator", "", err)
	made := a.open(true)
	_, err = made.Define(bg, a.s.Definition)
	a.say("deleted: define by another operator", "", err)
	a.all("made again", daemon, true)
	for _, what := range slices.Sorted(maps.Keys(a.s.Bad)) {
		a.anew()
		a.s.Bad[what]()
		before := a.s.Record()
		a.all(what, a.open(true), true)
		a.say(what+": nothing is written over it", a.s.Record() == before, nil)
	}
	for _, c := range []struct {
		what string
		do   func()
	}{{"damaged", a.s.Damage}, {"spoilt", a.s.Spoil}, {"copied", a.s.Copy}} {
		if c.do != nil {
			a.broken(c.what, c.do)
		}
	}
}

// anew defines the sequence and another one, and has a daemon reserve and ask for changes.
func (a *answers) anew() (daemon client, since string) {
	a.s.Put("")
	made, daemon, other := a.open(true), a.open(false), a.s.Definition
	other.Name = second
	_, err1 := made.Define(bg, a.s.Definition)
	_, err2 := made.Define(bg, other)
	_, err3 := daemon.Reserve(bg, "orders", 10)
	since, _, err4 := daemon.Changes(bg, "")
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		a.t.Fatal(err)
	}
	return daemon, since
}

// broken makes the record another one under a daemon.
func (a *answers) broken(what string, do func()) {
	daemon, since := a.anew()
	do()
	operator := a.open(true)
	a.all(what, operator, true)
	a.all(what+", a daemon that ran", daemon, true)
	r, err := operator.Raise(bg, "orders", 300)
	a.say(what+": raised", shown(r), err)
	if err != nil {
		_, err = operator.Retire(bg, "orders")
		a.say(what+": retired", "", err)
	}
	wrong := a.s.Definition
	wrong.Offset = wrong.Step + 1
	_, err = operator.Revive(bg, wrong, 400)
	a.say(what+": revived with a wrong definition", "", err)
	r, err = operator.Revive(bg, a.s.Definition, 400)
	a.say(what+": revived", shown(r), err)
	_, told, _ := daemon.Changes(bg, since)
	for _, r := range told {
		a.say(what+": then a daemon is told of "+r.Name, shown(r), r.Fault)
	}
	b, err := daemon.Reserve(bg, "orders", 1)
	a.say(what+": reserve after that", block(b), err)
	b, err = daemon.Reserve(bg, second, 1)
	a.say(what+": reserve of another sequence", block(b), err)
}

// second is the name of another sequence, which an election puts into the same group.
const second = "{orders}too"

// compare compares with testdata, or writes it.
func (a *answers) compare() {
	atFile.Lock()
	defer atFile.Unlock()
	path := filepath.Join(root(a.t), "test/countertest/testdata/answers.txt")
	all, order := readAnswers(a.t, path)
	if !*update {
		for _, step := range order {
			if want, ok := all[step][a.s.Kind]; ok && a.said[step] != want && !slices.Contains(a.late, step) {
				a.t.Errorf("%s:\n %s\nwant\n %s", step, a.said[step], want)
			}
		}
		for _, step := range a.steps {
			if _, ok := all[step][a.s.Kind]; !ok {
				a.t.Errorf("%s:\n %s\nand that is new", step, a.said[step])
			}
		}
		return
	}
	for _, step := range order {
		delete(all[step], a.s.Kind)
	}
	at := -1
	for _, step := range a.steps {
		if i := slices.Index(order, step); i >= 0 {
			at = i
		} else {
			at++
			order = slices.Insert(order, at, step)
			all[step] = map[string]string{}
		}
		all[step][a.s.Kind] = a.said[step]
	}
	var b strings.Builder
	for _, step := range order {
		by := map[string][]string{}
		for _, kind := range slices.Sorted(maps.Keys(all[step])) {
			by[all[step][kind]] = append(by[all[step][kind]], kind)
		}
		texts := slices.SortedFunc(maps.Keys(by), func(x, y string) int { return cmp.Compare(by[x][0], by[y][0]) })
		if len(texts) > 0 {
			fmt.Fprintln(&b, step)
		}
		for _, text := range texts {
			fmt.Fprintf(&b, "\t%s = %s\n", strings.Join(by[text], " "), text)
		}
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// readAnswers reads the answers of all stores: by step and kind.
func readAnswers(t *testing.T, path string) (all map[string]map[string]string, order []string) {
	all = map[string]map[string]string{}
	text, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		rest, ok := strings.CutPrefix(line, "\t")
		if !ok {
			order = append(order, line)
			all[line] = map[string]string{}
			continue
		}
		kinds, answer, _ := strings.Cut(rest, " = ")
		for _, kind := range strings.Fields(kinds) {
			all[order[len(order)-1]][kind] = answer
		}
	}
	return all, order
}

// root is the top folder of the repository.
func root(t *testing.T) string {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	t.Fatal("no go.mod above the test")
	return ""
}
