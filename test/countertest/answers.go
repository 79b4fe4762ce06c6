package countertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// A Subject is a kind of store, and what Answers needs to bring it into every condition.
type Subject struct {
	Kind       string                  // as the script names it
	Definition counter.Definition      // of orders; other sequences differ in their names
	Open       func(operator bool) any // a counter.Store that is a counter.Admin too
	Record     func() string           // all that is recorded of orders
	Put        func(text string)       // makes it what Record once returned; empty = nothing, and of {orders}too neither
	Break      map[string]func()       // make it another one
	Calls      func() map[string]int   // how many calls of each kind the store's server or disk has got
	Words      map[string]string       // texts that differ from run to run, and what stands for them
	Down       func() any              // ends the server, and opens another store; nil = there is no server
}

// Answers plays a script that shows everything that a store can answer, the records that it writes and its calls to the
// server. It leaves the subject without a server. Beside the calls of Stage, in which MAX is the definition's and MORE
// one more, there are those below.
func Answers(t *testing.T, s Subject) {
	script.RunAs(t, path(t, "answers"), s.Kind, func(t *testing.T, play func(script.Do)) {
		s.Put("")
		a := &answers{Stage: NewStage(t), t: t, s: s, began: time.Now()}
		a.Full, a.Words = true, s.Words
		a.New = func(name string) counter.Definition {
			d := s.Definition
			d.Name = name
			return d
		}
		a.calls()
		play(func(words []string) string {
			for i, word := range words {
				words[i] = cmp.Or(map[string]string{"MAX": fmt.Sprint(s.Definition.Max),
					"MORE": fmt.Sprint(s.Definition.Max + 1)}[word], word)
			}
			return a.Constant(StoodStill(a.Do(words)))
		})
	})
}

type answers struct {
	*Stage
	t      *testing.T
	s      Subject
	began  time.Time
	record string // that was said last
	kept   string
	down   bool
}

var (
	filler = regexp.MustCompile(`\n{9,}`)
	kinds  = map[string]error{
		"unknown": counter.ErrUnknown, "ended": counter.ErrEnded, "retired": counter.ErrRetired,
		"foreign": counter.ErrForeign, "damaged": counter.ErrDamaged, "unusable": counter.ErrUnusable,
		"stale": counter.ErrStale, "order": counter.ErrOrder, "deposed": counter.ErrDeposed,
		"unavailable": counter.ErrUnavailable, "canceled": context.Canceled,
	}
)

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

func (a *answers) calls() {
	maps.Copy(a.Calls, script.Calls{
		"open": func(name string, operator ...string) {
			c := a.s.Open(len(operator) > 0).(Client)
			a.t.Cleanup(func() { c.Close() })
			a.Stores[name] = c
		},
		// a everything [define]: all calls; those with the same answer once; a promised: what is not
		"everything": a.everything,
		"promised":   func(c counter.Lossy) string { return Said(c.NotPromised(bg)) },
		// counting a reserve ...: what a call cost too, and what is recorded after it, if that is something else
		"counting": a.counting,
		// break WORDS makes the record of orders another one, back what it was at keep, delete nothing
		"break":  func(words []string) { a.s.Break[strings.Join(words, " ")]() },
		"keep":   func() { a.kept = a.s.Record() },
		"kept":   func() bool { return a.s.Record() == a.kept },
		"back":   func() { a.s.Put(a.kept) },
		"delete": func() { a.s.Put("") },
		// down a ends the server; a is another store
		"down": func(name string) { a.Stores[name], a.down = a.s.Down(), true },
	})
}

// everything says what every call answers while something is wrong.
func (a *answers) everything(c Client, define ...string) string {
	var texts []string
	same := map[string]string{}
	say := func(call string, answer any, err error) {
		text := strings.ReplaceAll(a.Constant(Said(answer, err)), "\n", `\n`)
		if same[text] == "" {
			texts = append(texts, text)
		}
		same[text] += call + " "
	}
	if len(define) > 0 {
		r, err := c.Define(bg, a.s.Definition)
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
	for i, text := range texts {
		texts[i] = strings.TrimSpace(same[text]) + " = " + text
	}
	return strings.Join(texts, "\n")
}

// counting says what one call cost. On a busy machine the note of a daemon may be due.
func (a *answers) counting(words []string) string {
	if words[1] == "changes" && time.Since(a.began) > 10*time.Second {
		a.t.Skip("does not apply once the last note is ten seconds old")
	}
	before := a.s.Calls()
	said := a.Do(words)
	var calls []string
	for call, n := range a.s.Calls() {
		if n > before[call] {
			calls = append(calls, fmt.Sprint(call, " ", n-before[call]))
		}
	}
	slices.Sort(calls)
	said += "calls: " + cmp.Or(strings.Join(calls, ", "), "none")
	if record := a.s.Record(); record != a.record {
		a.record = record
		said += "\nrecord: " + strings.NewReplacer("\n", `\n`, "\x00", `\0`).Replace(
			filler.ReplaceAllStringFunc(record, func(lines string) string { return fmt.Sprintf("\n(and %d)", len(lines)-1) }))
	}
	return said
}

// path is where a script of this package stands.
func path(t *testing.T, name string) string {
	return script.Path(t, "test/countertest/testdata/"+name+".script")
}
