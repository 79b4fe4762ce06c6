package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

// TestRules plays the rules of sequences over a driver in memory. Beside the calls of countertest.Stage:
//
//	open a [patient] [signs] [anew] [wordless] [together=3] [locks|settles|notes]   another process
//	open a apart        one with a driver of its own, to which nothing happens
//	term a b ord        b is what a.Within of a term of names that begin with ord is
//	db next=20 max=30 floor=5 birth=x | forget | damage | spoil NAME      somebody writes the record of orders, or so
//	found foreign|closed|fixed|waits|unusable|unread|history TEXT         what the driver says of all that it reads
//	found as it is
//	born BIRTH|- [adopt] [unsettled]   what New makes from now on
//	WHERE fails|unavailable|uncounted|again|doubt TEXT   the error there, WHERE one of do read swap swapped new admit
//	WHERE works         prepare lock unlock settle sign notes close
//	lose 2              the answers of the next writes
//	meanwhile WHERE ... a command for the next time that it is at a load, swap or list, or one has come: swapped, listed
//	note KEY AGO ...    a daemon's note; learnt ... is what those have learnt which have learnt of everything
//	cancel              ends the context of a call that says "cut"
//	set OPTION on|off   now, runs, settles, seems-damaged: fields of fake
//
// Each answer ends with the calls of the driver.
func TestRules(t *testing.T) {
	script.Run(t, "testdata/rules.script", func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			play((&world{Stage: countertest.NewStage(t), fake: newFake(t)}).do)
		})
	})
}

// A world is the stores of a script, and their driver.
type world struct {
	*countertest.Stage
	*fake
}

func (w *world) do(words []string) string {
	began := time.Now()
	said := w.command(words)
	if calls := w.counted(); calls != "" {
		said += "\n\t" + calls
	}
	if passed := time.Since(began); passed > 50*time.Millisecond && words[0] != "sleep" { // tries again are not in step
		said += fmt.Sprint("\n\tafter ", passed)
	}
	return said
}

func (w *world) command(words []string) string {
	rest := strings.Join(words[min(2, len(words)):], " ")
	switch words[0] {
	case "open":
		if w.Stores[words[1]] = w.open(words[2:]); slices.Contains(words, "apart") {
			w.Stores[words[1]] = w.db.Open()
		}
	case "term":
		w.Stores[words[2]] = w.Stores[words[1]].(*ledger.Ledger).Within(term(words[3]))
	case "signed":
		return fmt.Sprint(w.Stores[words[1]].(*ledger.Ledger).Signed())
	case "db":
		w.write(words[1:])
	case "found":
		w.find(words[1], rest)
	case "born":
		e := entry{birth: strings.Trim(words[1], "-"), adopt: slices.Contains(words, "adopt"),
			unsettled: slices.Contains(words, "unsettled")}
		w.made = func(r *counter.Record) ledger.Entry {
			made := e
			made.Record = *r
			return &made
		}
	case "lose":
		w.lost, _ = strconv.Atoi(words[1])
	case "meanwhile":
		w.hooks[words[1]] = append(w.hooks[words[1]], func() {
			if said := w.command(words[2:]); said != "" {
				w.count("(" + rest + ": " + said + ")")
			}
		})
	case "note":
		w.notes[words[1]] = fmt.Sprint(time.Now().Add(-w.Duration(words[2])).UnixMilli(), " ", strings.Join(words[3:], " "))
	case "learnt":
		w.noted = strings.Join(words[1:], " ")
	case "cancel":
		w.Cancel()
	case "sleep":
		time.Sleep(w.Duration(words[1]))
	case "set":
		*map[string]*bool{"now": &w.now, "runs": &w.runs, "settles": &w.settles, "seems-damaged": &w.notFirst}[words[1]] =
			words[2] == "on"
	default:
		if _, ok := w.Stores[words[0]]; ok {
			return w.Stage.Do(words)
		}
		w.fail(words[0], words[1], errors.New(rest))
	}
	return ""
}

func (w *world) open(options []string) *ledger.Ledger {
	has := func(option string) bool { return slices.Contains(options, option) }
	traits := ledger.Traits{Words: words, Patient: has("patient"), Signs: has("signs"), Anew: has("anew")}
	if has("wordless") {
		traits.Words = ledger.Words{}
	}
	if i := slices.IndexFunc(options, func(s string) bool { return strings.HasPrefix(s, "together=") }); i >= 0 {
		traits.Together, _ = strconv.Atoi(options[i][len("together="):])
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
	return ledger.New(d, traits, nil)
}

// fail sets the error that there is somewhere.
func (w *world) fail(where, how string, err error) {
	what := map[string]error{"unavailable": counter.ErrUnavailable, "uncounted": ledger.ErrUncounted,
		"again": ledger.ErrAgain, "doubt": ledger.ErrDoubt}[how]
	switch {
	case how == "works":
		err = nil
	case what != nil:
		err = ledger.As(what, err)
	case how != "fails":
		w.t.Fatalf("%s %s: what is that?", where, how)
	}
	w.errs[where] = err
}

// write changes the record of orders.
func (w *world) write(words []string) {
	switch words[0] {
	case "forget":
		w.db.Forget(words[1])
		return
	case "damage":
		w.db.Damage(words[1])
		return
	case "spoil":
		w.db.Spoil(words[1], counter.ErrUnusable)
		return
	}
	r := counter.NewRecord(counter.Sequence("orders"), strings.Join(words, " "))
	e := &entry{Basic: ledger.Basic{Record: r}, birth: "-"}
	for _, word := range words {
		option, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseUint(value, 10, 64)
		switch option {
		case "birth":
			e.birth = value
		case "adopt":
			e.adopt, e.birth = true, ""
		default:
			*map[string]*uint64{"next": &e.Next, "max": &e.Max, "floor": &e.Floor}[option] = n
		}
	}
	w.db.Put(e)
}

// find says what the driver finds.
func (w *world) find(what, text string) {
	err := errors.New(text)
	w.edit = func(found *ledger.Found) {
		switch what {
		case "foreign":
			found.Foreign = text
		case "closed":
			found.Closed = err
		case "fixed":
			found.Fixed = err
		case "waits":
			found.Waits = err
		case "unusable":
			found.Fault, found.Entry = counter.ErrUnusable, nil
		case "unread":
			found.Unread = w.calls["load"] == 0
		case "history":
			found.History = text
		}
	}
}

// opener opens Stores of one Database.
func opener(db *memcounter.Database) countertest.Open {
	return func(*testing.T) (counter.Store, counter.Admin) {
		s := db.Open()
		return s, s
	}
}

func TestConformance(t *testing.T) {
	countertest.Run(t, func(*testing.T) countertest.Open {
		db := memcounter.NewDatabase()
		db.LateErr = counter.ErrNoRoll
		return opener(db)
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
		Calls: func() string {
			loads, swaps := f.calls["load"], 0
			for call, n := range f.calls {
				if strings.HasPrefix(call, "swap") {
					swaps += n
				}
			}
			clear(f.calls)
			return fmt.Sprint("loads ", loads, ", swaps ", swaps)
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
