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
//	a takes orders 10       the same; it does not say which, but no value may have been granted before
//	a return orders 5 [2]   values from 5 on, of the newest block of the script, or the one that was granted 2 before
//	a return 5 orders items  of both at once
//	a raise orders 100, a retire orders, a revive orders 100 [offset=3 ...]
//	a advance orders 100 200 TERM
//	a show orders, a list, a changes [again], a behind, a close
//	                        again = as if nothing was known
//
// A call that ends with "soon" is cut off after a quarter of a second, one with "late" is too late already, and one
// with "cut" is when something calls Cancel.
type Stage struct {
	T      testing.TB
	Stores map[string]any // counter.Store and mostly counter.Admin, by name
	Cancel func()
	New    func(name string) counter.Definition // what a define without options says
	Full   bool                                 // answers have definitions
	Words  map[string]string                    // texts that differ from run to run, and what stands for them

	tokens map[string]int             // in the order in which Constant saw them
	blocks map[string][]counter.Block // that were granted, by sequence
	since  map[string]string          // by store: see counter.Store.Changes
}

// NewStage makes a Stage without stores.
func NewStage(t testing.TB) *Stage {
	return &Stage{T: t, Stores: map[string]any{}, New: counter.Sequence, blocks: map[string][]counter.Block{},
		since: map[string]string{}, Words: map[string]string{}, tokens: map[string]int{}}
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

// Do carries out a call. Two apostrophes are an empty word.
func (s *Stage) Do(words []string) string {
	for i, word := range words {
		words[i] = strings.TrimPrefix(word, "''")
	}
	of := words[0]
	store, ok := s.Stores[of]
	if !ok {
		s.T.Fatalf("%q: who is that?", words)
	}
	ctx, words := s.context(words[1:])
	if words[0] == "changes" {
		since := s.since[of]
		if len(words) > 1 {
			since = ""
		}
		now, list, err := store.(counter.Store).Changes(ctx, since)
		was := map[bool]string{true: "unchanged"}[now == since && err == nil]
		if err == nil {
			s.since[of] = now
		}
		return strings.TrimSpace(was + "\n" + Said(s.listed(list), err))
	}
	if said, ok := s.toStore(ctx, words, store.(counter.Store)); ok {
		return said
	}
	admin, ok := store.(counter.Admin)
	if !ok {
		s.T.Fatalf("%q: not of an operator", words)
	}
	return s.toAdmin(ctx, words, admin)
}

func (s *Stage) context(words []string) (context.Context, []string) {
	ctx, cancel := context.WithCancel(context.Background())
	s.T.Cleanup(cancel)
	switch last := words[len(words)-1]; last {
	case "soon":
		ctx, cancel = context.WithTimeout(ctx, 250*time.Millisecond)
		s.T.Cleanup(cancel)
	case "late":
		cancel()
	case "cut":
		s.Cancel = cancel
	default:
		return ctx, words
	}
	return ctx, words[:len(words)-1]
}

// Number is a word that is one.
func (s *Stage) Number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		s.T.Fatal(err)
	}
	return n
}

// Duration is a word that is one.
func (s *Stage) Duration(word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		s.T.Fatal(err)
	}
	return d
}

// Definition is what the words of a define say.
func (s *Stage) Definition(words []string) counter.Definition {
	d := s.New(words[0])
	for _, word := range words[1:] {
		option, value, _ := strings.Cut(word, "=")
		if to := map[string]*uint64{"start": &d.Start, "step": &d.Step, "offset": &d.Offset, "max": &d.Max,
			"batch": &d.Batch, "rate": &d.Rate, "node": &d.Time.Node}[option]; to != nil {
			*to = s.Number(value)
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

// toStore carries out a call of a counter.Store.
func (s *Stage) toStore(ctx context.Context, words []string, store counter.Store) (said string, ok bool) {
	name := append(words, "")[1]
	switch words[0] {
	case "define":
		r, err := store.Define(ctx, s.Definition(words[1:]))
		return s.brief(r, err), true
	case "reserve":
		b, err := store.Reserve(ctx, name, s.Number(words[2]))
		if ctx.Err() != nil && counter.Certain(err) {
			s.T.Errorf("%v is certain, but the call was cut off", err)
		}
		return s.granted(name, b, err), true
	case "takes":
		b, err := store.Reserve(ctx, name, s.Number(words[2]))
		for _, old := range s.blocks[name] {
			if err == nil && b.Lo <= old.Hi && old.Lo <= b.Hi {
				s.T.Errorf("granted %+v, and %+v before", b, old)
			}
		}
		if said := s.granted(name, b, err); err != nil {
			return said, true
		}
		return "ok", true
	case "advance":
		span := counter.Span{From: s.Number(words[2]), To: s.Number(words[3]), Need: 1, Term: words[4]}
		b, err := store.(counter.Timekeeper).Advance(ctx, name, span)
		return s.granted(name, b, err), true
	case "return":
		return s.giveBack(ctx, words[1:], store), true
	case "close":
		return Said("", store.Close()), true
	}
	return "", false
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

// giveBack gives back what is left of one block, or of the newest ones of several sequences.
func (s *Stage) giveBack(ctx context.Context, words []string, store counter.Store) string {
	if next, err := strconv.ParseUint(words[0], 10, 64); err == nil {
		var rests []counter.Rest
		for _, name := range words[1:] {
			rests = append(rests, counter.Rest{Name: name, Block: s.Granted(name, 0), Next: next})
		}
		var said []string
		for i, err := range store.ReturnAll(ctx, rests) {
			said = append(said, words[1+i]+": "+Said("", err))
		}
		return strings.Join(said, "\n")
	}
	before := s.Number(append(words, "0")[2])
	return Said("", store.Return(ctx, words[0], s.Granted(words[0], int(before)), s.Number(words[1])))
}

// Granted is the newest block of a sequence, or the one that was granted so many before it.
func (s *Stage) Granted(name string, before int) counter.Block {
	blocks := s.blocks[name]
	if before >= len(blocks) {
		return counter.Block{Lo: 1, Hi: 5, Token: "of nobody"}
	}
	return blocks[len(blocks)-1-before]
}

// toAdmin carries out a call of a counter.Admin.
func (s *Stage) toAdmin(ctx context.Context, words []string, admin counter.Admin) string {
	switch words[0] {
	case "raise":
		return s.brief(admin.Raise(ctx, words[1], s.Number(words[2])))
	case "retire":
		return s.brief(admin.Retire(ctx, words[1]))
	case "revive":
		return s.brief(admin.Revive(ctx, s.Definition(append(words[1:2:2], words[3:]...)), s.Number(words[2])))
	case "show":
		return s.brief(admin.Show(ctx, words[1]))
	case "list":
		list, err := admin.List(ctx)
		return Said(s.listed(list), err)
	case "behind":
		list, err := admin.Behind(ctx)
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
	s.T.Fatalf("%q: what is that?", words)
	return ""
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
