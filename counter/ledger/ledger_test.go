package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestRules plays the rules of sequences over a driver in memory, see world. Each answer ends with the calls of the
// driver.
func TestRules(t *testing.T) {
	script.Run(t, "testdata/rules.script", func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			w := &world{Stage: countertest.NewStage(t), fake: newFake(t)}
			maps.Copy(w.Calls, w.verbs())
			play(w.do)
		})
	})
}

// A world is the stores of a script, and their driver.
type world struct {
	*countertest.Stage
	*fake
}

func (w *world) verbs() script.Calls {
	return script.Calls{
		// open a [patient] [signs] [anew] [wordless] [together=3] [locks|settles|notes]: another process; "open a apart"
		// is one with a driver of its own, to which nothing happens; term a b ord: b is what a.Within of a term of names
		// that begin with ord is
		"open": w.open,
		"term": func(a *ledger.Ledger, name, prefix string) { w.Stores[name] = a.Within(term(prefix)) },
		// db next=20 max=30 floor=5 birth=x: somebody writes the record of orders, or so; lose 2: the answers of writes
		"db": w.write, "forget": w.db.Forget, "damage": w.db.Damage,
		"spoil": func(name string) { w.db.Spoil(name, counter.ErrUnusable) },
		"lose":  func(n int) { w.lost = n },
		// found foreign|closed|fixed|waits|unusable|unread|history TEXT: what the driver says of all that it reads
		"found": w.find,
		// born BIRTH|- [adopt] [unsettled]: what New makes from now on
		"born": w.born,
		// error WHERE fails|works|unavailable|uncounted|again|doubt TEXT, WHERE one of do read swap swapped new admit
		// prepare lock unlock settle sign notes close
		"error": w.fail,
		// meanwhile WHERE ...: for the next time that it is at a load, swap or list, or one has come: swapped, listed
		"meanwhile": func(where string, call ...string) {
			w.hooks[where] = append(w.hooks[where], func() {
				if said := strings.TrimSpace(w.Stage.Do(call)); said != "" {
					w.count("(" + strings.Join(call, " ") + ": " + said + ")")
				}
			})
		},
		// note KEY AGO ...: a daemon's; learnt ...: what those have learnt which have learnt of everything
		"note": func(key string, ago time.Duration, words ...string) {
			w.notes[key] = fmt.Sprint(time.Now().Add(-ago).UnixMilli(), " ", strings.Join(words, " "))
		},
		"learnt": func(words ...string) { w.noted = strings.Join(words, " ") },
		"signed": (*ledger.Ledger).Signed,
		// cancel: the context of a call that says "cut"
		"cancel": func() { w.Cancel() },
		"sleep":  time.Sleep,
		// set now|runs|settles|seems-damaged BOOL: fields of fake
		"set": func(option string, on bool) {
			*map[string]*bool{"now": &w.now, "runs": &w.runs, "settles": &w.settles, "seems-damaged": &w.notFirst}[option] = on
		},
	}
}

func (w *world) do(words []string) string {
	began := time.Now()
	said := w.Stage.Do(words)
	if calls := w.counted(); calls != "" {
		said += "\t" + calls
	}
	if passed := time.Since(began); passed > 50*time.Millisecond && words[0] != "sleep" { // tries again are not in step
		said += fmt.Sprint("\n\tafter ", passed)
	}
	return said
}

func (w *world) open(name string, options ...string) {
	has := func(option string) bool { return slices.Contains(options, option) }
	traits := ledger.Traits{Words: words, Patient: has("patient"), Signs: has("signs"), Anew: has("anew")}
	if has("wordless") {
		traits.Words = ledger.Words{}
	}
	for _, option := range options {
		fmt.Sscanf(option, "together=%d", &traits.Together)
	}
	var d ledger.Driver = w.fake
	switch {
	case has("locks"):
		d = locking{w.fake}
	case has("settles"):
		d = settling{w.fake}
	case has("notes"):
		d = noting{w.fake}
	}
	w.Stores[name] = ledger.New(d, traits, nil)
	if has("apart") {
		w.Stores[name] = w.db.Open()
	}
}

func (w *world) born(birth string, options ...string) {
	e := entry{birth: strings.Trim(birth, "-"), adopt: slices.Contains(options, "adopt"),
		unsettled: slices.Contains(options, "unsettled")}
	w.made = func(r *counter.Record) ledger.Entry {
		made := e
		made.Record = *r
		return &made
	}
}

// fail sets the error that there is somewhere.
func (w *world) fail(where, how string, text ...string) {
	err := errors.New(strings.Join(text, " "))
	what := map[string]error{"unavailable": counter.ErrUnavailable, "uncounted": ledger.ErrUncounted,
		"again": ledger.ErrAgain, "doubt": ledger.ErrDoubt}[how]
	switch {
	case how == "works":
		err = nil
	case what != nil:
		err = ledger.As(what, err)
	}
	w.errs[where] = err
}

// write changes the record of orders.
func (w *world) write(words ...string) {
	r := counter.NewRecord(counter.Sequence("orders"), strings.Join(words, " "))
	e := &entry{Basic: ledger.Basic{Record: r}, birth: "-"}
	for _, word := range words {
		option, value, _ := strings.Cut(word, "=")
		switch option {
		case "birth":
			e.birth = value
		case "adopt":
			e.adopt, e.birth = true, ""
		default:
			fmt.Sscan(value, map[string]*uint64{"next": &e.Next, "max": &e.Max, "floor": &e.Floor}[option])
		}
	}
	w.db.Put(e)
}

// find says what the driver finds.
func (w *world) find(what string, words ...string) {
	text := strings.Join(words, " ")
	err := errors.New(text)
	w.edit = map[string]func(*ledger.Found){
		"foreign":  func(found *ledger.Found) { found.Foreign = text },
		"closed":   func(found *ledger.Found) { found.Closed = err },
		"fixed":    func(found *ledger.Found) { found.Fixed = err },
		"waits":    func(found *ledger.Found) { found.Waits = err },
		"unusable": func(found *ledger.Found) { found.Fault, found.Entry = counter.ErrUnusable, nil },
		"unread":   func(found *ledger.Found) { found.Unread = w.calls["load"] == 0 },
		"history":  func(found *ledger.Found) { found.History = text },
	}[what]
}

func TestConformance(t *testing.T) {
	countertest.Run(t, func(*testing.T) countertest.Open {
		db := memcounter.NewDatabase()
		db.LateErr = counter.ErrNoRoll
		return func(*testing.T) countertest.Client { return db.Open() }
	})
}

// The rules, in all conditions: the first store in memory has what every store has, and the other one what a loss
// needs too.
func TestAnswers(t *testing.T) {
	for kind, births := range map[string]bool{"memory": false, "memory-births": true} {
		t.Run(kind, func(t *testing.T) { answers(t, kind, births) })
	}
}

func answers(t *testing.T, kind string, births bool) {
	f, tokens := newFake(t), 0
	token := func() string {
		tokens++
		return fmt.Sprint("token", tokens)
	}
	if births {
		f.made = func(r *counter.Record) ledger.Entry {
			return &entry{Basic: ledger.Basic{Record: *r}, birth: "born with " + r.Token}
		}
	}
	was := map[string]ledger.Entry{}
	read := func() ledger.Entry {
		found, err := f.Driver.Load(bg, []string{"orders"})
		if err != nil {
			t.Fatal(err)
		}
		return found[0].Entry
	}
	countertest.Answers(t, countertest.Subject{
		Kind: kind, Definition: counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 10_001, Batch: 7},
		Open: func(bool) any { return ledger.New(f, ledger.Traits{Words: words, Patient: true}, token) },
		Record: func() string {
			e := read()
			text := fmt.Sprintf("%+v", e)
			was[text] = e
			return text
		},
		Put: func(text string) {
			if f.edit = nil; text == "" {
				tokens = 0
				f.db.Forget("orders")
				f.db.Forget("{orders}too")
				return
			}
			f.db.Put(was[text])
		},
		Break: map[string]func(){
			"damaged": func() { f.db.Damage("orders") },
			"spoilt":  func() { f.db.Spoil("orders", counter.ErrUnusable) },
			"copied": func() {
				copied := read().Plain().Token
				f.edit = func(found *ledger.Found) {
					if found.Entry != nil && found.Entry.Plain().Token == copied {
						found.Foreign = "copied {NAME} from {AT}, next {NEXT}, granted {GRANTED}, least {LEAST}"
					}
				}
			},
		},
		Calls: func() map[string]int {
			calls := map[string]int{}
			for call, n := range f.calls {
				kind, _, _ := strings.Cut(call, " ")
				calls[kind+"s"] += n
			}
			return calls
		},
	})
}

// Two calls with the same names in other orders do not wait for each other.
func TestNobodyWaitsForEver(t *testing.T) {
	db := memcounter.NewDatabase()
	l := ledger.New(db.Driver(), ledger.Traits{Together: 3}, nil)
	rests := []counter.Rest{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	back := slices.Clone(rests)
	slices.Reverse(back)
	var both sync.WaitGroup
	for _, rests := range [][]counter.Rest{rests, back} {
		both.Go(func() {
			for range 500 {
				l.ReturnAll(bg, rests)
			}
		})
	}
	both.Wait()
}

func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := ledger.NewGate(2, func(cause error) error { return fmt.Errorf("no answer: %w", cause) })
		stall, no := make(chan struct{}), errors.New("no")
		countertest.Refused(t, g.Do(bg, func() error { return no }), no)
		var ran atomic.Int64
		for range 3 {
			ctx, cancel := context.WithTimeout(bg, time.Second)
			defer cancel()
			began := time.Now()
			stalled := func() error {
				ran.Add(1)
				<-stall
				return nil
			}
			countertest.Refused(t, g.Do(ctx, stalled), context.DeadlineExceeded, "no answer: ")
			countertest.Refused(t, g.Do(ctx, stalled), context.DeadlineExceeded, "no answer: ")
			if time.Since(began) != time.Second {
				t.Error(time.Since(began))
			}
		}
		close(stall)
		synctest.Wait()
		over, cancel := context.WithCancel(bg)
		cancel()
		for range 30 { // though there is room
			countertest.Refused(t, g.Do(over, func() error {
				ran.Add(1)
				return nil
			}), context.Canceled, "no answer: ")
			synctest.Wait()
		}
		if n := ran.Load(); n != 2 {
			t.Errorf("%d goroutines at once", n)
		}
		if err := g.Do(bg, func() error { return nil }); err != nil {
			t.Error(err)
		}
		if g.Closed() || !g.Close() || g.Close() || !g.Closed() {
			t.Error("closed")
		}
		if err := g.Do(bg, func() error { return nil }); err == nil || err.Error() != "the counter store is closed" {
			t.Error(err)
		}
	})
}
