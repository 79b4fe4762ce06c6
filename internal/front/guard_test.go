package front

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/loginlimit"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// token returns the line of a user whose token is the name.
func token(name, rights string) string {
	return fmt.Sprintf("%s:$token-sha256$%x:%s\n", name, sha256.Sum256([]byte(name)), rights)
}

// as returns a session that a user has logged in to.
func as(t *testing.T, w *world, user string) *server.Session {
	t.Helper()
	s := w.session(0, 0)
	s.(server.PeerSession).Peer(netip.MustParseAddr("10.0.0.1"))
	if got, _ := ask(t, &s, fmt.Sprintf("set x 0 0 %d\r\n%s %s\r\n", 2*len(user)+1, user, user)); got != "STORED\r\n" {
		t.Fatalf("%s: %q", user, got)
	}
	return &s
}

// TestRights: what a user may ask for, in every way of asking, and that a change holds at once.
func TestRights(t *testing.T) {
	w, replace := withLogins(t, token("all", "*=get,incr")+token("some", "a*=get")+token("few", "b=incr"))
	w.issue(t)
	for _, c := range []struct{ user, in, want string }{
		{"all", "get a\r\n", "VALUE a"}, {"all", "get a z\r\n", "VALUE a"},
		{"some", "get a\r\n", "VALUE a"}, {"some", "get ab a\r\n", "VALUE ab"},
		{"some", "get b\r\n", "CLIENT_ERROR not permitted: b\r\n"},
		{"some", "get a b\r\n", "CLIENT_ERROR not permitted: b\r\n"},
		{"some", "mg b v\r\n", "CLIENT_ERROR not permitted: b\r\n"},
		{"some", "incr a 1\r\n", "CLIENT_ERROR not permitted: a\r\n"},
		{"few", "get b\r\n", "CLIENT_ERROR not permitted: b\r\n"},
		{"few", "incr b 1\r\n", "NOT_FOUND\r\n"}, {"few", "incr c 1\r\n", "CLIENT_ERROR not permitted: c\r\n"},
	} {
		if got, _ := ask(t, as(t, w, c.user), c.in); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s, %q: %q, want %q", c.user, c.in, got, c.want)
		}
	}
	s := as(t, w, "some")
	replace(token("some", "b=get"))
	if got, _ := ask(t, s, "get b\r\n"); !strings.HasPrefix(got, "VALUE b") {
		t.Errorf("with another right: %q", got)
	}
	if got, _ := ask(t, s, "get a\r\n"); got != "CLIENT_ERROR not permitted: a\r\n" {
		t.Errorf("without the right: %q", got)
	}
	replace(token("other", "*=get"))
	if _, _, _, err := server.Converse(s, 1, []byte("get b\r\n"), nil); !errors.Is(err, protocol.ErrClose) {
		t.Errorf("a user that was removed: %v", err)
	}
}

// TestStatsTellNoIDs to users who may not get them.
func TestStatsTellNoIDs(t *testing.T) {
	list := []string{"pid", "a:last", "b:last", "b:ready", "b:left"}
	w, _ := withLogins(t, token("some", "a*=get"))
	g := &guard{Handler: statsHandler{list: list}, rights: w.logins.directory.Account("some").Rights()}
	var got []string
	if !g.Stats(nil, func(name, _ string) { got = append(got, name) }) {
		t.Error("there is no such group")
	}
	if strings.Join(got, " ") != "pid a:last b:ready" {
		t.Errorf("%q", got)
	}
}

// statsHandler has these statistics.
type statsHandler struct {
	protocol.Handler
	list []string
}

func (h statsHandler) Stats(_ []byte, emit func(name, value string)) bool {
	for _, name := range h.list {
		emit(name, "")
	}
	return true
}

// kept is a store of users.
type kept struct {
	users.Store
	mu    sync.Mutex // held to touch what follows
	since string
	list  []users.User
	err   error
	asked int
}

// answers sets what the store answers from now on, and returns how often it was asked.
func (k *kept) answers(since string, list []users.User, err error) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.since, k.list, k.err = since, list, err
	return k.asked
}

func (k *kept) Changes(_ context.Context, since string) (string, []users.User, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked++
	switch {
	case k.err != nil:
		return "", nil, k.err
	case since == k.since:
		return since, nil, nil
	}
	return k.since, k.list, nil
}

// TestUsersAreFollowed: twice a second, and the log says once what is wrong.
func TestUsersAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFront(t, func(c *Config, _ *Given) { c.Users = "counters" })
		k := &kept{err: errors.New("no answer")}
		w.UseUsers(k)
		if w.Users() != k {
			t.Error("the users are elsewhere")
		}
		w.Start(nil)
		ann := []users.User{{Name: "ann"}}
		step := func(since string, list []users.User, err error, want string) {
			t.Helper()
			asked, before := k.answers(since, list, err), len(w.log.String())
			time.Sleep(2 * usersPause)
			synctest.Wait()
			if n := k.answers(since, list, err) - asked; n != 2 {
				t.Errorf("the store was asked %d times in a second, want 2", n)
			}
			got := w.log.String()[before:]
			if strings.Count(got, "\n") != min(1, len(want)) || !strings.Contains(got, want) {
				t.Errorf("the log says %q, want %q", got, want)
			}
		}
		if got := w.log.String(); !strings.Contains(got, "nobody can log in yet") {
			t.Errorf("at first: %s", got)
		}
		none, other := errors.New("no answer"), errors.New("another answer")
		step("", nil, none, "")
		step("", nil, other, "nobody can log in yet")
		step("1", nil, nil, "there are no users: no client can log in")
		step("2", ann, nil, "msg=users count=1")
		step("2", ann, nil, "")
		step("2", ann, none, "those that were read before hold")
		step("2", ann, none, "")
		step("2", ann, nil, "the users can be read again")
		step("2", ann, nil, "")
		w.Close()
		w.Wait()
		w.End()
		asked := k.answers("2", ann, nil)
		time.Sleep(time.Minute)
		if k.answers("2", ann, nil) != asked {
			t.Error("the users are followed after the end")
		}
	})
}

// TestLoginsOverHTTP: with a password and with a token; guesses of both are limited together.
func TestLoginsOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := withLogins(t, "ann:secret\n"+token("bob", "*=get"))
		login, from := w.Login(), netip.MustParseAddr("10.0.0.1")
		is := func(want string, from netip.Addr, c users.Credentials) {
			t.Helper()
			a, err := login(t.Context(), from, c)
			if a == nil && want != "" || a != nil && a.Name != want || err != nil {
				t.Errorf("%v, %v; want %q", a, err, want)
			}
		}
		is("ann", from, users.Credentials{User: []byte("ann"), Password: []byte("secret")})
		is("bob", from, users.Credentials{Token: []byte("bob")})
		is("", from, users.Credentials{User: []byte("ann"), Password: []byte("wrong")})
		for i := range loginlimit.Burst {
			is("", from, users.Credentials{Token: fmt.Appendf(nil, "guess%d", i)})
		}
		is("", from, users.Credentials{Token: []byte("bob")})
		is("", from, users.Credentials{User: []byte("ann"), Password: []byte("secret")})
		is("bob", netip.MustParseAddr("10.0.0.2"), users.Credentials{Token: []byte("bob")})
	})
	if newFront(t, func(*Config, *Given) {}).Login() != nil {
		t.Error("without users there are logins")
	}
	if newLogins(new(Config), slog.Default(), slog.Default(), nil) != nil {
		t.Error("without users there are logins")
	}
}
