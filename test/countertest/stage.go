package countertest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// A Stage has the stores of a script, see package script, and carries out calls of them. A store is named first:
//
//	a define orders [start=5 step=2 offset=1 max=100 batch=7 rate=5 strict refuse node=3 layout=twitter]
//	a reserve orders 10
//	a takes orders 10       the same; it does not say which, but whether a value was granted before
//	a return orders 5 [2]   values from 5 on, of the newest block of the script, or the one that was granted 2 before
//	a return-all 5 orders items  of both at once
//	a raise orders 100, a retire orders, a revive orders 100 [offset=3 ...]
//	a advance orders 100 200 TERM
//	a show orders, a list, a changes [again], a behind, a close
//	                        again = as if nothing was known
//
// A call that ends with "soon" is cut off after a quarter of a second, one with "late" is too late already, and one
// with "cut" is when something calls Cancel.
type Stage struct {
	script.Calls // besides, those of a test
	T            testing.TB
	Stores       map[string]any // counter.Store and mostly counter.Admin, by name
	Cancel       func()
	New          func(name string) counter.Definition // what a define without options says
	Full         bool                                 // answers have definitions
	Words        map[string]string                    // texts that differ from run to run, and what stands for them

	ctx    context.Context            // of a call
	tokens map[string]int             // in the order in which Constant saw them
	blocks map[string][]counter.Block // that were granted, by sequence
	since  map[counter.Store]string   // see counter.Store.Changes
}

// NewStage makes a Stage without stores.
func NewStage(t testing.TB) *Stage {
	s := &Stage{T: t, Stores: map[string]any{}, New: counter.Sequence, blocks: map[string][]counter.Block{},
		since: map[counter.Store]string{}, Words: map[string]string{}, tokens: map[string]int{}}
	s.Calls = script.Calls{
		"stores":  s.Stores,
		"define":  func(a counter.Store, words ...string) string { return s.brief(a.Define(s.ctx, s.Definition(words))) },
		"reserve": s.reserve, "takes": s.takes, "advance": s.advance, "return": s.giveBack, "return-all": s.giveAllBack,
		"changes": s.changes,
		"close":   func(a counter.Store) string { return Said("", a.Close()) },
		"raise": func(a counter.Admin, name string, atLeast uint64) string {
			return s.brief(a.Raise(s.ctx, name, atLeast))
		},
		"retire": func(a counter.Admin, name string) string { return s.brief(a.Retire(s.ctx, name)) },
		"revive": func(a counter.Admin, name string, next uint64, words ...string) string {
			return s.brief(a.Revive(s.ctx, s.Definition(append([]string{name}, words...)), next))
		},
		"show": func(a counter.Admin, name string) string { return s.brief(a.Show(s.ctx, name)) },
		"list": func(a counter.Admin) string {
			list, err := a.List(s.ctx)
			return Said(s.listed(list), err)
		},
		"behind": s.behind,
	}
	return s
}

var (
	random = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)
	column = regexp.MustCompile(`at column \d+`) // of a statement, so it depends on how long the table's name is
)

// Constant is an answer without what differs from run to run.
func (s *Stage) Constant(text string) string {
	longest := func(x, y string) int { return cmp.Or(len(y)-len(x), cmp.Compare(x, y)) } // one may hold another
	for _, from := range slices.SortedFunc(maps.Keys(s.Words), longest) {
		text = strings.ReplaceAll(text, from, s.Words[from])
	}
	text = random.ReplaceAllStringFunc(text, func(token string) string {
		if s.tokens[token] == 0 {
			s.tokens[token] = len(s.tokens) + 1
		}
		return fmt.Sprint("TOKEN", s.tokens[token])
	})
	return column.ReplaceAllString(text, "at column N")
}

// StoodStill begins a script's section anew if etcd says that it could not answer a call in time. Otherwise it returns
// what was said.
func StoodStill(said string) string {
	if strings.Contains(said, "etcdserver: request timed out") {
		panic(script.Again{Why: said})
	}
	return said
}

// Do carries out a call, of a store or of the test's.
func (s *Stage) Do(words []string) string {
	ctx, cancel := context.WithCancel(context.Background())
	s.T.Cleanup(cancel)
	s.ctx = ctx
	if s.Stores[words[0]] == nil {
		return s.Calls.Do(s.T, words)
	}
	last := len(words) - 1
	switch words[last] {
	case "soon":
		s.ctx, cancel = context.WithTimeout(ctx, 250*time.Millisecond)
		s.T.Cleanup(cancel)
	case "late":
		cancel()
	case "cut":
		s.Cancel = cancel
	default:
		last++
	}
	return s.Calls.Do(s.T, words[:last])
}

// Definition is what the words of a define say.
func (s *Stage) Definition(words []string) counter.Definition {
	d := s.New(words[0])
	for _, word := range words[1:] {
		option, value, _ := strings.Cut(word, "=")
		if to := map[string]*uint64{"start": &d.Start, "step": &d.Step, "offset": &d.Offset, "max": &d.Max,
			"batch": &d.Batch, "rate": &d.Rate, "node": &d.Time.Node}[option]; to != nil {
			var err error
			if *to, err = strconv.ParseUint(value, 10, 64); err != nil {
				s.T.Fatal(err)
			}
		}
		d.Strict = d.Strict || word == "strict" || option == "node"
		d.RefuseLoss = d.RefuseLoss || word == "refuse"
		if option == "node" {
			d.Time.Layout, d.Time.Ahead, d.Max = "katsubushi", counter.DefaultAhead, 1<<53
		}
		if option == "layout" {
			d.Time.Layout = value
		}
	}
	return d
}

func (s *Stage) reserve(a counter.Store, name string, n uint64) string {
	ctx := s.ctx
	b, err := a.Reserve(ctx, name, n)
	if ctx.Err() != nil && counter.Certain(err) {
		s.T.Errorf("%v is certain, but the call was cut off", err)
	}
	return s.granted(name, b, err)
}

func (s *Stage) takes(a counter.Store, name string, n uint64) string {
	b, err := a.Reserve(s.ctx, name, n)
	said := "ok"
	for _, old := range s.blocks[name] {
		if err == nil && b.Lo <= old.Hi && old.Lo <= b.Hi {
			said = fmt.Sprintf("twice: %d-%d, and %d-%d before", b.Lo, b.Hi, old.Lo, old.Hi)
		}
	}
	if refused := s.granted(name, b, err); err != nil {
		return refused
	}
	return said
}

func (s *Stage) advance(a counter.Timekeeper, name string, from, to uint64, term string) string {
	b, err := a.Advance(s.ctx, name, counter.Span{From: from, To: to, Need: 1, Term: term})
	return s.granted(name, b, err)
}

func (s *Stage) granted(name string, b counter.Block, err error) string {
	if err == nil {
		if b.Token == "" {
			s.T.Errorf("%+v has no token", b)
		}
		s.blocks[name] = append(s.blocks[name], b)
	}
	return Said(block(b), err)
}

func (s *Stage) giveBack(a counter.Store, name string, next uint64, before ...int) string {
	return Said("", a.Return(s.ctx, name, s.Granted(name, append(before, 0)[0]), next))
}

// giveAllBack gives back what is left of the newest blocks of several sequences.
func (s *Stage) giveAllBack(a counter.Store, next uint64, names ...string) string {
	var rests []counter.Rest
	for _, name := range names {
		rests = append(rests, counter.Rest{Name: name, Block: s.Granted(name, 0), Next: next})
	}
	var said []string
	for i, err := range a.ReturnAll(s.ctx, rests) {
		said = append(said, names[i]+": "+Said("", err))
	}
	return strings.Join(said, "\n")
}

// Granted is the newest block of a sequence, or the one that was granted so many before it.
func (s *Stage) Granted(name string, before int) counter.Block {
	blocks := s.blocks[name]
	if before >= len(blocks) {
		return counter.Block{Lo: 1, Hi: 5, Token: "of nobody"}
	}
	return blocks[len(blocks)-1-before]
}

// changes asks a store for what has changed since it was asked last, or ever.
func (s *Stage) changes(a counter.Store, again ...string) string {
	since := s.since[a]
	if len(again) > 0 {
		since = ""
	}
	now, list, err := a.Changes(s.ctx, since)
	was := map[bool]string{true: "unchanged\n"}[now == since && err == nil]
	if err == nil {
		s.since[a] = now
	}
	return was + Said(s.listed(list), err)
}

func (s *Stage) behind(a counter.Admin) string {
	list, err := a.Behind(s.ctx)
	var names []string
	for _, d := range list {
		if d.Silent < 0 {
			s.T.Errorf("%+v", d)
		}
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return Said(strings.Join(names, "\n"), err)
}

// brief is what changes in a record.
func (s *Stage) brief(r counter.Record, err error) string {
	if s.Full {
		return Said(shown(r), err)
	}
	text := ""
	if r.Name != "" {
		text = fmt.Sprintf("next=%d floor=%d", r.Next, r.Floor)
	}
	if r.Retired {
		text += " retired"
	}
	return Said(text, err)
}

func (s *Stage) listed(list []counter.Record) string {
	var lines []string
	for _, r := range list {
		lines = append(lines, r.Name+": "+s.brief(r, r.Fault))
	}
	return cmp.Or(strings.Join(lines, "\n"), "none")
}
