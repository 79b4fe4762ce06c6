package front

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/loginlimit"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// logins is who may log in, on all ports together.
type logins struct {
	directory users.Directory
	verifier  *users.Verifier
	limit     *loginlimit.Limiter
	log       *slog.Logger
	busy      atomic.Uint64 // logins refused as users.ErrBusy

	reading sync.Mutex
	store   users.Store
	since   string                // what store.Changes returned last
	unread  atomic.Pointer[error] // why the users cannot be read, as the log says; nil = they can. Anybody may load it
}

// usersPause is how often the store is asked whether users have changed. A change is to reach sessions
// within a second.
const usersPause = 500 * time.Millisecond

// newLogins makes the logins of a daemon, with the users that ReadSecrets has read, or still without any.
// nil = nobody needs to log in.
func newLogins(c *Config, log, noise *slog.Logger, wake func()) *logins {
	if !c.HasLogins() {
		return nil
	}
	l := &logins{limit: loginlimit.New(noise), log: log}
	l.verifier = users.NewVerifier(&l.directory, wake)
	l.verifier.Limit, l.verifier.Beside = l.limit, c.ComparePasswords
	if read := c.secrets.users; read != nil {
		l.store, l.since = read.from, read.since
		l.directory.Replace(read.list)
	}
	return l
}

// watch follows the store until ctx ends.
func (l *logins) watch(ctx context.Context) {
	tick := time.NewTicker(usersPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.refresh(ctx, false)
		case <-ctx.Done():
			return
		}
	}
}

// refresh reads the users if they have changed, or in any case. After an error the users that were read
// before hold; the log says so once.
func (l *logins) refresh(ctx context.Context, anyway bool) error {
	l.reading.Lock()
	defer l.reading.Unlock()
	since := l.since
	if anyway {
		since = ""
	}
	now, list, err := l.store.Changes(ctx, since)
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		l.complain(err)
		return err
	case now != since:
		l.since = now
		l.directory.Replace(list)
		if len(list) == 0 {
			l.log.Warn("there are no users: no client can log in")
		} else {
			l.log.Info("users", "count", len(list))
		}
	case l.unread.Load() != nil:
		l.log.Info("the users can be read again")
	}
	l.unread.Store(nil)
	return nil
}

func (l *logins) complain(err error) {
	if was := l.unread.Swap(&err); was == nil || (*was).Error() != err.Error() {
		message := "the users cannot be read: those that were read before hold"
		if _, known := l.directory.Users(); !known {
			message = "the users cannot be read: nobody can log in yet"
		}
		l.log.Error(message, "error", err)
	}
}

// A wait is for what a login waits.
type wait struct {
	comparison *users.Comparison // nil = none
	until      time.Time         // it is refused then; zero = it is not
	full       *users.Comparison // which found no place; nil = it does not wait for one
	room       time.Time         // it is refused as busy then, if it waits for a place
}

// roomPause is how long a login waits for a place among those that are being decided. Were it refused at
// once, those who ask in a loop would keep the event loops busy, and take every place before others.
const roomPause = time.Second

// patient reports whether a login that found no place waits for one.
func (w *wait) patient(now time.Time) bool {
	if w.room.IsZero() {
		w.room = now.Add(roomPause)
	}
	return now.Before(w.room)
}

// ask decides a login, or says id.ErrWait: ask again, with the same bytes. A login that is not compared
// fails after a pause, so that those who only fail cannot keep the event loops busy.
func (l *logins) ask(w *wait, from netip.Addr, user, password []byte) (a *users.Account, err error) {
	switch {
	case !w.until.IsZero():
		if time.Now().Before(w.until) {
			return nil, id.ErrWait
		}
		w.until = time.Time{}
		return nil, nil
	case w.comparison != nil:
		a, w.comparison, err = l.verifier.Result(w.comparison, from, user, password)
	case w.full != nil && l.verifier.Full(w.full):
		err = users.ErrBusy
	default:
		a, w.comparison, err = l.verifier.Begin(from, user, password)
	}
	if err == users.ErrBusy {
		if w.comparison != nil {
			w.full, w.comparison = w.comparison, nil
		}
		if w.patient(time.Now()) {
			return nil, id.ErrWait
		}
	}
	w.full, w.room = nil, time.Time{}
	switch {
	case err == users.ErrRefused:
		l.limit.Failed(from, true)
		w.until = time.Now().Add(loginlimit.Pause)
		return nil, id.ErrWait
	case err == users.ErrBusy:
		l.busy.Add(1)
		return nil, err
	case err != nil:
		return nil, err
	case w.comparison != nil:
		return nil, id.ErrWait
	case a == nil:
		l.limit.Failed(from, false)
	}
	return a, nil
}

// login decides a login of somebody who can wait. It returns nil if anything is wrong.
func (l *logins) login(ctx context.Context, from netip.Addr, user, password []byte) (*users.Account, error) {
	for w := (wait{}); ; {
		a, err := l.verifier.Login(ctx, from, user, password)
		switch {
		case err == users.ErrBusy && w.patient(time.Now()):
			select {
			case <-time.After(server.ParkPause):
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case err == users.ErrBusy:
			l.busy.Add(1)
		case err == users.ErrRefused:
			l.limit.Failed(from, true)
			return nil, nil
		case a == nil && err == nil:
			l.limit.Failed(from, false)
		}
		return a, err
	}
}

// http decides a login over HTTP: it is an httpapi.Login.
func (l *logins) http(ctx context.Context, from netip.Addr, c users.Credentials) (*users.Account, error) {
	if c.Token != nil {
		return l.bearer(from, c.Token)
	}
	return l.login(ctx, from, c.User, c.Password)
}

// bearer decides a login with a token alone.
func (l *logins) bearer(from netip.Addr, token []byte) (*users.Account, error) {
	if l.limit.Refuses(from) {
		l.limit.Failed(from, true)
		return nil, nil
	}
	if _, known := l.directory.Users(); !known {
		return nil, users.ErrUnknown
	}
	a := l.directory.Bearer(token)
	if a == nil {
		l.limit.Charge(from, nil, token)
		l.limit.Failed(from, false)
	}
	return a, nil
}
