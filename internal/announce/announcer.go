// Package announce tells clients and other daemons where this daemon is, by way of the store of the
// worker ids, and compares its clock with those of the daemons that it finds there.
//
// An Announcer writes, a Checker reads. Neither has anything to do with who may issue ids: two daemons
// never have one window, whatever is announced.
package announce

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

const (
	lookSoon     = 200 * time.Millisecond // how often Run looks for a change while clients wait for it
	writeTimeout = time.Second            // of a call to the store
)

// AnnouncerConfig holds the settings of an Announcer. All but Again are required.
type AnnouncerConfig struct {
	Directory workerid.Directory
	Name      string // see NewName
	// State returns what is true now, without At, which is filled in. It must not wait.
	State func() announcement.Announcement
	Now   func() int64  // Unix ms
	Again time.Duration // the store forgets what is not written again so often; 0 = it keeps it for the session
	Log   *slog.Logger
}

// An Announcer keeps this daemon's announcement true. Any goroutine may call its methods.
type Announcer struct {
	AnnouncerConfig
	changed         chan struct{} // wakes Run
	leaving         atomic.Bool   // never ready again
	written, failed atomic.Uint64
	refusal         atomic.Pointer[string] // see Refusal

	// turn has an element while no call to the store is under way, so that texts arrive in order. The
	// goroutine that took the element owns the fields below.
	turn    chan struct{}
	said    *announcement.Announcement // what was written last, without its time; nil = nothing
	at      time.Time                  // of the last call
	pause   time.Duration              // so long the store wants no other one
	unknown bool                       // the last call failed
	ended   bool
}

// NewAnnouncer makes an Announcer. It announces nothing before Run.
func NewAnnouncer(c AnnouncerConfig) *Announcer {
	a := &Announcer{AnnouncerConfig: c, changed: make(chan struct{}, 1), turn: make(chan struct{}, 1)}
	a.turn <- struct{}{}
	return a
}

// NewName returns a name for a daemon's announcement, different for each process: the host's name for
// people, and random characters.
func NewName() string {
	host, _ := os.Hostname()
	host = strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, host)
	return "d." + host[:min(len(host), 64)] + "." + rand.Text()[:12]
}

// Run writes each change until ctx ends, and tries again what the store did not take. It relies on Look
// once the daemon is ready, and after a call that failed.
func (a *Announcer) Run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		case <-a.changed:
		}
		if ready, err := a.tell(ctx); err == nil && !ready {
			pause.Reset(lookSoon)
		}
	}
}

// Look wakes Run if there is something to write. The owner calls it once a second, when the process is
// awake anyway.
func (a *Announcer) Look() {
	select {
	case <-a.turn:
	default: // a call is under way; the next Look sees what changes meanwhile
		return
	}
	news := !a.ended && a.news(a.state())
	a.turn <- struct{}{}
	if news {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
}

// news says whether the store does not have this yet, or will soon not have it any more. It formats nothing: it is
// asked for every second.
func (a *Announcer) news(s announcement.Announcement) bool {
	if a.unknown && time.Since(a.at) < a.pause {
		return false
	}
	return a.unknown || a.said == nil || a.Again != 0 && time.Since(a.at) >= a.Again || !reflect.DeepEqual(s, *a.said)
}

// state is what to announce, without the time.
func (a *Announcer) state() announcement.Announcement {
	s := a.State()
	s.Ready = s.Ready && !a.leaving.Load()
	return s
}

// Leave says that the daemon is not ready, and will not be again. When it returns nil, the store has
// that. It takes up to two timeouts if the store does not answer.
func (a *Announcer) Leave(ctx context.Context) error {
	a.leaving.Store(true)
	_, err := a.tell(ctx)
	return err
}

// End deletes the announcement; no other follows.
func (a *Announcer) End(ctx context.Context) error {
	<-a.turn
	defer func() { a.turn <- struct{}{} }()
	a.ended = true
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return a.Directory.Announce(ctx, a.Name, "")
}

// tell writes the announcement if the store does not have it as it should be, and returns what it says.
func (a *Announcer) tell(ctx context.Context) (ready bool, _ error) {
	<-a.turn
	defer func() { a.turn <- struct{}{} }()
	s := a.state()
	if a.ended || !a.news(s) {
		return s.Ready, nil
	}
	said := s
	s.At, a.at, a.pause = a.Now(), time.Now(), 0
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := a.Directory.Announce(ctx, a.Name, s.String()); err != nil {
		a.failed.Add(1)
		if hint := interface{ RetryAfter() time.Duration }(nil); errors.As(err, &hint) {
			a.pause = hint.RetryAfter()
		}
		a.refusal.Store(nil)
		if r := (interface{ Reason() string })(nil); errors.As(err, &r) {
			reason := r.Reason()
			a.refusal.Store(&reason)
		}
		if !a.unknown {
			a.Log.Warn("announcement not written: clients may not find this daemon", "error", err)
		}
		a.unknown = true
		return false, err
	}
	a.written.Add(1)
	a.refusal.Store(nil)
	if a.unknown || a.said == nil || !reflect.DeepEqual(said, *a.said) {
		a.Log.Info("announced", "name", a.Name, "addr", s.Addr, "ready", s.Ready, "worker_ids", s.Workers)
	}
	a.said, a.unknown = &said, false
	return s.Ready, nil
}

// Refusal returns why the store refused the last announcement, or "" if it did not. Anybody may read it.
func (a *Announcer) Refusal() string {
	if reason := a.refusal.Load(); reason != nil {
		return *reason
	}
	return ""
}

// Counts returns how many announcements were written, and how many calls failed, since the start.
func (a *Announcer) Counts() (written, failed uint64) { return a.written.Load(), a.failed.Load() }
