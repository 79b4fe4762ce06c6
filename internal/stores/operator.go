package stores

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/sql"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// What operators do with sequences: `katsubushi name` and the admin port do the same, in the same
// words.

// A Conflict is the error of a request that does not fit what is recorded. Nothing was changed, and to
// repeat it is useless.
type Conflict struct{ Err error }

func (c Conflict) Error() string { return c.Err.Error() }
func (c Conflict) Unwrap() error { return c.Err }

func conflict(format string, args ...any) error { return Conflict{fmt.Errorf(format, args...)} }

// ErrNotFiles is the error of Adopt for a store that is not files, see Counters.Files.
var ErrNotFiles = conflict("name adopt: for files only; name raise says from which value on another store " +
	"may go on")

// ErrNoElection is the error of those who ask for the leaders of a store that elects none.
var ErrNoElection = conflict("leaders are elected in etcd only: -counters etcd://...")

// ParseSequence reads the definition of a sequence that the store could keep. The error has everything
// that is wrong with it.
func (c Counters) ParseSequence(line string) (kinds.Definition, error) {
	d, err := kinds.Parse(line)
	if err == nil && !d.Recorded() {
		err = fmt.Errorf("%s is a %s, of which nothing is recorded: only sequences are created; give daemons -name %q",
			d.Name, d.Kind, d)
	}
	if err == nil || d.Timed() {
		err = errors.Join(err, c.CheckDefinition(d))
	}
	return d, err
}

// ParseFloor reads a value for Raise.
func ParseFloor(text string) (uint64, error) {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil || v < 1 || v > counter.MaxValue {
		return 0, fmt.Errorf("AT_LEAST=%.70s: 1 to %d allowed", strings.ToValidUTF8(text, "?"), uint64(counter.MaxValue))
	}
	return v, nil
}

// Create records a sequence, unless it is recorded already. The error is a *DifferentError if another
// definition is.
func Create(ctx context.Context, s counter.Admin, d kinds.Definition) (counter.Record, error) {
	r, err := s.Define(ctx, d.Definition)
	if err == nil {
		err = kinds.Compare(d, r)
	}
	if err == nil && r.Retired {
		err = conflict("sequence %s is retired: the name cannot be used again", r.Name)
	}
	return r, err
}

// FarAhead is a Conflict if timestamps are to be raised to an id that lies over a day ahead of this host's clock. They
// never go down, so that a digit too many would spoil the name for ever. flag is how the operator can insist.
func FarAhead(ctx context.Context, s counter.Admin, name string, atLeast uint64, flag string) error {
	r, _ := s.Show(ctx, name) // Raise says what is wrong
	if !r.Readable() || !r.Timed() || r.Retired {
		return nil
	}
	at := kinds.IDLayout(r.Definition).Decompose(atLeast).Time
	if time.Until(at) <= 24*time.Hour {
		return nil
	}
	return conflict("sequence %s: %d is an id of %s, over a day ahead of this host's clock. Timestamps never go down: "+
		"repeat this with %s if you want that", name, atLeast, at.Format(time.DateOnly), flag)
}

// Raise makes atLeast the floor of a sequence. It is a Conflict if that is not above the present one, or
// below the next value of a record that is foreign. One that is damaged is made anew, of what declared says
// the name is: its own definition is lost. Declared by nobody, the name has no Kind.
func Raise(
	ctx context.Context, s counter.Admin, name string, atLeast uint64, declared func() kinds.Definition,
) (counter.Record, error) {
	r, err := s.Show(ctx, name)
	if errors.Is(err, counter.ErrDamaged) {
		d := declared()
		if !d.Recorded() || d.Step == 0 {
			return r, conflict("sequence %s: %w. Its definition is lost too: repeat this with the whole definition as it "+
				"was, with its step=, offset=, max= and order=: -name '%s sequence ...', or over HTTP ?definition=. "+
				"Daemons that declare another one refuse the name, and do not start", name, err, name)
		}
		return s.Revive(ctx, d.Definition, kinds.ValueOf(d.Definition, atLeast))
	}
	foreign := errors.Is(err, counter.ErrForeign)
	if err != nil && !foreign {
		return r, err
	}
	shown := func(value uint64) uint64 { return kinds.IDOf(r.Definition, value) }
	value := kinds.ValueOf(r.Definition, atLeast)
	if lowest := max(r.Floor, r.First()); !foreign && value <= lowest {
		return r, conflict("sequence %s: %d is not above what is there: already no value below %d is issued. A sequence "+
			"never goes down", name, atLeast, shown(lowest))
	}
	if least := min(r.Next, r.Max); foreign && value < least { // r.Max is 0 if nothing is known of it
		return r, conflict("sequence %s: %d is too low: the record says that values below %d were granted, and they would "+
			"come again", name, atLeast, shown(least))
	}
	if trial := r; r.Name != "" {
		if err := trial.Raise(value, "trial"); err != nil {
			return r, Conflict{err}
		}
	}
	return s.Raise(ctx, name, value)
}

// Faults returns what is wrong with records, or nil.
func Faults(list []counter.Record) error {
	var errs []error
	for _, r := range list {
		errs = append(errs, r.Fault)
	}
	return errors.Join(errs...)
}

// Adopt takes over a record that was written on another machine.
func Adopt(ctx context.Context, s counter.Admin, name string) (counter.Record, error) {
	r, err := s.Show(ctx, name)
	switch {
	case errors.Is(err, counter.ErrForeign) && r.Name != "":
		return s.Raise(ctx, name, min(r.Next, r.Max))
	case err == nil:
		return r, conflict("sequence %s is this machine's already", name)
	}
	return r, err
}

// Retire ends a sequence for ever if force is set. flag is how the operator can set it.
func Retire(ctx context.Context, s counter.Admin, name string, force bool, flag string) (counter.Record, error) {
	if force {
		r, err := s.Retire(ctx, name)
		if errors.Is(err, sql.ErrNoRetire) {
			err = Conflict{err}
		}
		return r, err
	}
	r, err := s.Show(ctx, name)
	if err == nil {
		err = conflict("sequence %s: daemons would refuse it for ever, and the name could not be used again: %s does that",
			name, flag)
	}
	return r, err
}

// A Shown is a record as operators see it. In JSON values are strings, as JavaScript would round them.
type Shown struct {
	Name       string `json:"name"`
	Definition string `json:"definition"`
	Next       uint64 `json:"next,string"`
	Floor      uint64 `json:"floor,string"`
	Left       uint64 `json:"left,string"`
	State      string `json:"state"`

	Until *time.Time `json:"until,omitempty"` // of timestamps: the time in the first id that no daemon has
	Led   *Led       `json:"led,omitempty"`   // of a sequence that has a leader, if it is known

	Unconfirmed []string `json:"unconfirmed,omitempty"`  // what Confirm returned after a change
	NotPromised string   `json:"not_promised,omitempty"` // what NotPromised returned after a change
}

// NotPromised says what may undo a change that the store has just confirmed, and what the operator can do;
// empty = nothing.
func NotPromised(ctx context.Context, s counter.Admin) string {
	l, ok := s.(counter.Lossy)
	if !ok {
		return ""
	}
	text, err := l.NotPromised(ctx)
	if err != nil {
		return fmt.Sprintf("what may undo this is not known: %v", err)
	}
	return text
}

// Show returns what operators see of a record.
func Show(r counter.Record) Shown {
	if !r.Readable() {
		state := "damaged"
		if r.Fault != nil && !errors.Is(r.Fault, counter.ErrDamaged) {
			state = "not readable"
		}
		return Shown{Name: r.Name, State: state}
	}
	s := Shown{Name: r.Name, Next: kinds.IDOf(r.Definition, r.Next), Left: r.Count(r.Next), State: "active"}
	if r.Floor != 0 {
		s.Floor = kinds.IDOf(r.Definition, r.Floor)
	}
	s.Definition = kinds.Declared(r.Definition).String()
	switch {
	case kinds.CheckName(r.Name) != nil: // a row of Leaf's
		s.State = "not served: the name"
	case r.Retired:
		s.State, s.Left = "retired", 0
	case s.Left == 0:
		s.State = "all granted"
	case r.Timed() && r.Next > r.First(): // which is a time
		until := kinds.IDLayout(r.Definition).Decompose(s.Next).Time
		s.Until, s.State = &until, "active until "+until.Format("2006-01-02T15:04:05.000Z")
	}
	return s
}
