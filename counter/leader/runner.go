package leader

import (
	"context"
	"errors"
	"log/slog"
)

// All stands for all groups that a daemon leads.
const All = -1

var (
	// ErrAlone: no other daemon takes part, so nobody would lead. Nothing was done.
	ErrAlone = errors.New("no other daemon takes part")
	// ErrNotLeader: this daemon does not lead the group. Nothing was done.
	ErrNotLeader = errors.New("this daemon does not lead the group")
)

// Config is what a Runner is made of. All but Changed is required.
type Config struct {
	Me    Node
	Board Board
	// Clock returns CLOCK_BOOTTIME in ns, above 0: the one that moments are read from.
	Clock func() int64
	Log   *slog.Logger
	// Begin is called when the daemon has become the leader of a group. It must not issue before it has
	// reserved within the Term.
	Begin func(Term)
	// End is called when a Term is over or is to be handed over; Until is 0 by then. It returns once
	// nothing of the Term can be issued any more, and what is left was given back within the Term, as
	// far as that is possible. Only then the group is handed over.
	//
	// Calls for one group come one after another, Begin and End in turn. Those for different groups come
	// from different goroutines.
	End func(Term)
	// Changed is called when a View differs from the one before in more than its time. It must return at
	// once. nil = not called.
	Changed func(*View)
}

// A Runner takes part in the election with one goroutine, and a few more for calls that are under way.
// Any goroutine may call its methods.
type Runner struct {
	c Config
}

// NewRunner makes a Runner. It does nothing before Run.
func NewRunner(c Config) *Runner { return &Runner{c: c} }

// Run takes part until ctx ends. From the first call on all groups are contested, so a daemon calls it
// when the first sequence with order=strict is known. When ctx ends, Run hands over what is still held, as
// Stop does but for a few seconds at most, and removes the daemon's node key. The error says which
// groups were not handed over: nobody leads them for TTL.
func (r *Runner) Run(ctx context.Context) error { return nil }

// Until returns up to when this daemon leads a group, as a moment of Config.Clock: it may answer a
// request that arrived before. 0 = it does not lead. From the end of a Term on it is 0 until End
// has returned for it. It is one atomic load.
func (r *Runner) Until(group int) int64 { return 0 }

// View returns what is known of all. It is one atomic load; nobody may change what it points to.
func (r *Runner) View() *View { return &View{} }

// Demote hands a group over to another daemon, or All, and returns when that is done. For 2 s this daemon
// does not claim it again. It returns ErrAlone, ErrNotLeader, or that of ctx: then the group is
// handed over later.
func (r *Runner) Demote(ctx context.Context, group int) error { return nil }

// Stop hands all groups over and claims none afterwards, nor is this daemon anybody's heir. Run goes on,
// so that View stays true while the daemon forwards. The error is that of ctx.
func (r *Runner) Stop(ctx context.Context) error { return nil }

// Stats are what a Runner counts.
type Stats struct {
	Renewals uint64 // that were confirmed
	Failures uint64 // calls of the Board without an answer in time
	Terms    uint64 // that began
	Lost     uint64 // terms that ended because another daemon had taken the group
	Handed   uint64 // terms that were handed over
	Renewed  int64  // when the last confirmed renewal was sent, in ns of Config.Clock; 0 = never
}

// Stats returns the figures so far.
func (r *Runner) Stats() Stats { return Stats{} }
