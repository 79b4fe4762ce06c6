package ledger_test

import (
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/memcounter"
)

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
	f, tokens := newFake(), 0
	token := func() string {
		tokens++
		return fmt.Sprint("token", tokens)
	}
	if births {
		f.made = func(plain ledger.Entry) (ledger.Entry, error) {
			return &entry{Basic: *plain.(*ledger.Basic), birth: "born with " + plain.Plain().Token}, nil
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
				f.db.Forget("orders")
				return
			}
			f.db.Put(was[text])
		},
		Damage: func() { f.db.Damage("orders") },
		Spoil:  func() { f.db.Spoil("orders", counter.ErrUnusable) },
		Copy: func() {
			copied := read().Plain().Token
			f.edit = func(found *ledger.Found) {
				if found.Entry != nil && found.Entry.Plain().Token == copied {
					found.Foreign = "copied {NAME} from {AT}, next {NEXT}, granted {GRANTED}, least {LEAST}"
				}
			}
		},
		Calls: func() string {
			defer func() { f.loads, f.swaps = 0, 0 }()
			return fmt.Sprint("loads ", f.loads, ", swaps ", f.swaps)
		},
	})
}
