package workerid

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// Defaults of Terms.
const (
	DefaultLease   = time.Minute
	DefaultMaxSkew = 2 * time.Second
)

// Terms are the settings that all kinds of leasing stores share. All daemons of a pool must have the
// same Layout, Min, Max and Lease.
type Terms struct {
	Layout    string        // the layout's fingerprint, without spaces
	Min, Max  uint64        // the pool's worker ids, both inclusive
	Lease     time.Duration // how far a window reaches into the future
	Heartbeat time.Duration // mean time between two extensions; 0 = the store chooses
	MaxSkew   time.Duration // how much this host's clock and the store's may differ; beyond it nothing is granted
	AutoInit  bool          // make the pool if there is none; its worker ids become available one lease later
	Now       func() int64  // this process's clock, Unix ms; nil = the wall clock
	Log       *slog.Logger  // warnings; nil = none
}

// Fingerprint returns the settings that all daemons of a pool must share. With different ones, their
// ids could be equal.
func (t Terms) Fingerprint() string {
	return fmt.Sprintf("%s;lease=%dms;ids=%d-%d", t.Layout, t.WithDefaults().Lease.Milliseconds(), t.Min, t.Max)
}

// WithDefaults returns the terms with defaults for the unset fields.
func (t Terms) WithDefaults() Terms {
	if t.Lease == 0 {
		t.Lease = DefaultLease
	}
	if t.MaxSkew == 0 {
		t.MaxSkew = DefaultMaxSkew
	}
	if t.Now == nil {
		t.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if t.Log == nil {
		t.Log = slog.New(slog.DiscardHandler)
	}
	return t
}

// A SettingError says what is wrong with a setting of a store: its Field, empty if no single one is to
// blame, and why.
type SettingError = problem.Setting

// SettingErrors takes apart what Validate, Check and ReadSecrets of all settings here return: everything that is
// wrong. nil has no parts.
func SettingErrors(err error) []*SettingError { return problem.Of(err) }

// Validate returns everything that is wrong with the terms for any store; see SettingErrors.
func (t Terms) Validate() error {
	var problems problem.List
	t = t.WithDefaults()
	if t.Min > t.Max {
		problems.Add("Max", "%d: not below the smallest, %d", t.Max, t.Min)
	}
	if least := 4 * Epsilon(t.MaxSkew); t.Lease < least {
		problems.Add("Lease", "%v is too short: with a skew of %v it takes at least %v", t.Lease, t.MaxSkew, least)
	}
	if t.MaxSkew < 0 {
		problems.Add("MaxSkew", "%v: not below 0", t.MaxSkew)
	}
	if t.Heartbeat < 0 || t.Heartbeat > t.Lease/2 {
		problems.Add("Heartbeat", "%v: at most half the lease, %v, allowed", t.Heartbeat, t.Lease/2)
	}
	return problems.Err()
}

// Epsilon is the margin for comparing two clocks that may both be wrong by maxSkew.
func Epsilon(maxSkew time.Duration) time.Duration { return 2*maxSkew + time.Second }

// HeartbeatOf returns a suitable mean time between two extensions of a lease.
func HeartbeatOf(lease time.Duration) time.Duration { return max(time.Second, lease/12) }

// A Backend is a Store as a daemon uses it: it describes itself, and can be closed after the Keeper
// has ended.
type Backend interface {
	Store
	// Figures emits what is known of the store now, always in the same order; it may be nothing. The
	// names begin with lease_ and the store's kind. Any goroutine may call it.
	Figures(emit func(figure.Figure)) Condition
	// Close closes connections and files. It does not give leases back.
	Close() error
}

// A Directory is a store where daemons announce themselves. Any goroutine may use it. One without sessions also has
// AnnounceAgain() time.Duration, which says how often Announce must be called with the same text.
type Directory interface {
	// Announce makes this daemon's announcement, or replaces its text. The store keeps it as long as
	// the daemon's session lives, and the Directory makes it again in a new session, also after an
	// error of Announce. An empty text ends it. A name consists of at most 100 letters, digits, dots,
	// hyphens and underscores, a text of at most 4 KB.
	Announce(ctx context.Context, name, text string) error
	// Peers returns the texts of all daemons' announcements, by name.
	Peers(ctx context.Context) (map[string]string, error)
}

// A Condition is what the status page judges a store by.
type Condition struct {
	Server           string        // host:port that answered last; empty = not known
	ClockAhead       time.Duration // its clock, or the other daemons', minus the id clock
	FloorWait        time.Duration // until newcomers get ids; 0 = at once
	Replicas, Needed int           // of the replicas, how many must have a lease before it counts
	Unwritten        error         // why state files are not written: ids go on from what was reserved,
	Left             time.Duration // for so long
}
