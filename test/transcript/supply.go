package transcript

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/katsubushi/katsubushi/v3/id"
)

// Ids are those of the program behind a protocol, by the names of their sources. Each source has a budget, after which
// it refuses.
type Ids struct {
	Next    map[string]uint64 // the next id of each source
	Stride  map[string]uint64 // from one to the next, if not 1
	Used    map[string]int    // how many were issued
	Budget  int               // ids of each source before it refuses; 0 = no end
	Most    int               // ids of one Mint; 0 = no limit
	Waits   *rand.Rand        // if not nil, the sources wait at random
	Turns   string            // of Mints and Reserves to come: w waits, i issues
	Refusal error             // instead of ids
	Log     []string          // what was asked for
}

// ErrSpent is what a source says that has used up its budget.
var ErrSpent = errors.New("no id\r\nfor now")

// A Supply is a source that issues the Ids of a name; the default one has none. Names that begin with d: are unknown.
type Supply struct {
	*Ids
	Name string
}

// Mint implements id.Source.
func (s Supply) Mint(_ id.When, n int, bulk bool) (id.Run, error) {
	s.Log = append(s.Log, fmt.Sprintf("%d*%s", n, cmp.Or(s.Name, "id"))+map[bool]string{true: " bulk"}[bulk])
	if err := s.rest(); err != nil {
		return id.Run{}, err
	}
	if s.Most > 0 {
		n = min(n, s.Most)
	}
	if s.Budget > 0 {
		if n = min(n, s.Budget-s.Used[s.Name]); n == 0 {
			return id.Run{}, ErrSpent
		}
	}
	return s.issue(n), nil
}

// rest returns what a source says instead of looking for ids.
func (s Supply) rest() error {
	if s.Turns != "" {
		turn := s.Turns[0]
		if s.Turns = s.Turns[1:]; turn == 'w' {
			return id.ErrWait
		}
	}
	if s.Waits != nil && s.Waits.IntN(3) == 0 {
		return id.ErrWait
	}
	if strings.HasPrefix(s.Name, "d:") {
		return id.UnknownName(s.Name)
	}
	return s.Refusal
}

func (s Supply) issue(n int) id.Run {
	run := id.Run{First: s.Next[s.Name], Stride: max(s.Stride[s.Name], 1), N: n}
	s.Next[s.Name] += run.Stride * uint64(n)
	s.Used[s.Name] += n
	return run
}

// A Numbers is a Supply whose ids can be reserved.
type Numbers struct{ Supply }

// Reserve implements id.Reserver.
func (c Numbers) Reserve(_ id.When, n int) (id.Run, error) {
	c.Log = append(c.Log, fmt.Sprintf("reserve %d*%s", n, c.Name))
	if err := c.rest(); err != nil {
		return id.Run{}, err
	}
	if c.Budget > 0 && c.Budget-c.Used[c.Name] < n {
		return id.Run{}, ErrSpent
	}
	return c.issue(n), nil
}

// A Texts is a Supply whose ids are the low bits of texts.
type Texts struct {
	Supply
	Of   id.Form
	High uint64 // the others
}

// Form implements id.Texter.
func (x Texts) Form() id.Form { return x.Of }

// Mint implements id.Source. It issues one text.
func (x Texts) Mint(when id.When, _ int, bulk bool) (id.Run, error) {
	run, err := x.Supply.Mint(when, 1, bulk)
	if err != nil {
		return run, err
	}
	return id.TextRun(x.Of, x.High, run.First), nil
}
