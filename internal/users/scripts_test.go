package users

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/loginlimit"
	"github.com/katsubushi/katsubushi/v3/internal/peers"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

// TestLoginScripts plays testdata/logins.script, each section in a bubble.
func TestLoginScripts(t *testing.T) {
	script.Run(t, "testdata/logins.script", func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			d := new(Directory)
			s := &logins{t: t, d: d, begun: map[string]begun{}, sessions: map[string]*Account{}}
			s.Verifier = NewVerifier(d, func() { s.woken++ })
			play(func(words []string) string {
				defer synctest.Wait()
				return s.calls().Do(t, words)
			})
		})
	})
}

// logins has the logins of a script.
type logins struct {
	*Verifier
	t        *testing.T
	d        *Directory
	woken    int
	begun    map[string]begun
	sessions map[string]*Account
	seen     *Rights // of a session, the last time
}

// A begun login waits for a comparison, or for a place.
type begun struct {
	c              *Comparison
	from           netip.Addr
	user, password []byte
}

// list is what words say: 'ann right a*=get' with a cheap hash, 'plain ann secret', 'token tok'. With # a word is a
// crowd of users.
func (s *logins) list(words []string) (list []User) {
	for _, word := range words {
		f := append(strings.Fields(word), "")
		switch {
		case f[0] == "plain":
			list = append(list, User{f[1], everything(Issue), plain(f[2])})
		case f[0] == "token":
			list = append(list, User{f[1], everything(Get), token(sha256.Sum256([]byte("token-of-" + f[1])))})
		case strings.HasSuffix(f[0], "#"):
			for i := range maxQueue {
				list = append(list, cheap(s.t, numbered(f[0], i), numbered(f[1], i), f[2]))
			}
		default:
			list = append(list, cheap(s.t, f[0], f[1], f[2]))
		}
	}
	return list
}

func numbered(word string, i int) string { return strings.ReplaceAll(word, "#", fmt.Sprint(i)) }

// said is what became of a login.
func said(a *Account, c *Comparison, err error) string {
	early, ok := err.(interface{ NotYet() bool })
	switch {
	case ok && early.NotYet():
		return "not yet: " + err.Error()
	case err != nil:
		return err.Error()
	case c != nil:
		return "waits"
	case a == nil:
		return "wrong"
	}
	return a.Name + " " + a.Rights().String()
}

// many says what became of many, with how often each if there are several.
func many(n int, each func(i int) string) string {
	counts := map[string]int{}
	for i := range n {
		counts[each(i)]++
	}
	var b strings.Builder
	for _, text := range slices.Sorted(maps.Keys(counts)) {
		k := counts[text]
		if n == 1 {
			return text
		}
		fmt.Fprintf(&b, "%d: %s\n", k, text)
	}
	return b.String()
}

func (s *logins) calls() script.Calls {
	return script.Calls{
		"users":   func(words ...string) { s.d.Replace(s.list(words)) },
		"limited": func() { s.Limit = loginlimit.New(slog.New(slog.DiscardHandler)) },
		"wait":    func(d time.Duration) { time.Sleep(d) },
		"login": func(user, password string) string {
			before := s.Compared()
			text := verifying{s.Verifier, s.t, s.d}.login(user, password)
			if n := s.Compared() - before; n > 0 {
				text += fmt.Sprintf(", by %d comparison", n)
			}
			return text
		},
		"logins": func(n int, user, password string) string {
			return many(n, func(i int) string {
				return verifying{s.Verifier, s.t, s.d}.login(user, numbered(password, i))
			})
		},
		"login-that-is-over": func(user, password string) error {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_, err := s.Login(ctx, home, []byte(user), []byte(password))
			return err
		},
		"bearer": func(text string) string {
			if a := s.d.Bearer([]byte(text)); a != nil {
				return a.Name
			}
			return "nobody"
		},
		// A session keeps its account.
		"session": func(name, user, password string) {
			s.sessions[name], _ = s.Login(s.t.Context(), home, []byte(user), []byte(password))
		},
		"may": func(name string) string {
			r, before := s.sessions[name].Rights(), s.seen
			switch s.seen = r; {
			case r == nil:
				return "nothing any more"
			case before != nil && before != r && before.String() == r.String():
				return "the same, at another address"
			}
			return r.String()
		},
		// As if all who compare were busy; then one of them is done.
		"one-is-free": func() { s.running-- },
		"busy":        func() { s.running = hashers },
		"works": func() {
			s.running = 1
			s.work()
		},
		"begin":  func(name, from, user, password string) string { return s.begin(1, name, from, user, password) },
		"begins": s.begin,
		"result": func(name string) string { return s.result(name) },
		"results": func(n int, name string) string {
			return many(n, func(i int) string { return s.result(numbered(name, i)) })
		},
		"result-of-another": func(name, user, password string) string {
			b := s.begun[name]
			return said(s.Result(b.c, b.from, []byte(user), []byte(password)))
		},
		"full": func(name string) bool { return s.Full(s.begun[name].c) },
		"same": func(one, two string) bool { return s.begun[one].c == s.begun[two].c },
		"turns": func(n int) string {
			var order []string
			for range n {
				p := s.pop().peer
				for _, b := range s.begun {
					if peers.Of(b.from) == p && !slices.Contains(order[max(0, len(order)-1):], b.from.String()) {
						order = append(order, b.from.String())
						break
					}
				}
			}
			return strings.Join(order, " ")
		},
		"state": func() string {
			_, most := s.waiting.Heaviest()
			return fmt.Sprintf("%d pending, %d of them wait, at most %d of a peer; %d compared, %d woken; "+
				"%d right and %d wrong answers are remembered",
				s.Waiting(), s.waits, most, s.Compared(), s.woken, len(s.right), len(s.wrong))
		},
	}
}

// begin begins logins, numbered where there is a #.
func (s *logins) begin(n int, name, from, user, password string) string {
	return many(n, func(i int) string {
		b := begun{nil, netip.MustParseAddr(numbered(from, i)), []byte(numbered(user, i)), []byte(numbered(password, i))}
		a, c, err := s.Begin(b.from, b.user, b.password)
		b.c = c
		s.begun[numbered(name, i)] = b
		return said(a, c, err)
	})
}

func (s *logins) result(name string) string {
	b := s.begun[name]
	a, c, err := s.Result(b.c, b.from, b.user, b.password)
	text := said(a, c, err)
	select {
	case <-b.c.ended:
		if !bytes.Equal(b.c.password, make([]byte, len(b.c.password))) {
			text += ", and the password stays in memory"
		}
	default:
	}
	if c != nil && c != b.c {
		text += " anew"
	}
	if c != nil {
		b.c = c
	}
	s.begun[name] = b
	return text
}

// TestStoreScripts plays testdata/stores.script with a file, and with keys.
func TestStoreScripts(t *testing.T) {
	for _, kind := range []string{"file", "keys"} {
		t.Run(kind, func(t *testing.T) {
			script.RunAs(t, "testdata/stores.script", kind, func(t *testing.T, play func(script.Do)) {
				s := &stored{t: t, keys: &fakeKeys{texts: map[string]string{}}, path: filepath.Join(t.TempDir(), "users")}
				if s.Store = NewShared(s.keys); kind == "file" {
					s.Store = NewFile(s.path)
				}
				play(func(words []string) string {
					return strings.NewReplacer(s.path, "FILE", someHash, "HASH").Replace(s.calls().Do(t, words))
				})
			})
		})
	}
}

// stored has the store of a script.
type stored struct {
	Store
	t    *testing.T
	keys *fakeKeys
	path string
	now  string // what Changes said last
}

func (s *stored) calls() script.Calls {
	change := func(as Store, name, to string) error {
		return Change(bg, as, name, func(Rights) (Rights, error) { return rights(s.t, to), nil })
	}
	whole := strings.NewReplacer(`\n`, "\n", `\r`, "\r", "HASH", someHash)
	kept := KeepAdmin(s.Store, "-force")
	return script.Calls{
		"add":    func(name, may string) (string, error) { return s.after(Add(bg, s, cheapest(s.t, name, may))) },
		"put":    func(name, may string) (string, error) { return s.after(put(s, cheapest(s.t, name, may))) },
		"remove": func(name string) (string, error) { return s.after(Remove(bg, s, name)) },
		"change": func(name, to string) (string, error) { return s.after(change(s, name, to)) },
		"grant": func(name, more string) (string, error) {
			return s.after(Change(bg, s, name, func(r Rights) (Rights, error) { return r.Plus(rights(s.t, more)) }))
		},
		"revoke": func(name, less string) (string, error) {
			return s.after(Change(bg, s, name, func(r Rights) (Rights, error) { return r.Minus(rights(s.t, less)) }))
		},
		"put-plain":   func(name string) error { return put(s, User{name, everything(Issue), plain("x")}) },
		"kept-change": func(name, to string) (string, error) { return s.after(change(kept, name, to)) },
		"kept-remove": func(name string) (string, error) { return s.after(Remove(bg, kept, name)) },
		"kept-secret": func(name string) (string, error) {
			return s.after(kept.Update(bg, name, func(old *User) (*User, error) {
				u := *old
				return &u, nil
			}))
		},
		"changes": func() string {
			now, list, err := s.Changes(bg, s.now)
			same := now == s.now
			s.now = now
			switch {
			case err != nil:
				return fmt.Sprintf("unavailable %t, not there %t, the same %t: %v", errors.Is(err, ErrUnavailable),
					errors.Is(err, fs.ErrNotExist), same, err)
			case list == nil && same:
				return "none"
			}
			return fmt.Sprint(len(list), " users, the same ", same)
		},
		"is": func(name, password string) bool {
			_, list, _ := s.Changes(bg, "")
			i := slices.IndexFunc(list, func(u User) bool { return u.Name == name })
			h, ok := list[i].secret.(*hash)
			return ok && h.is([]byte(password))
		},
		// Of a file.
		"write": func(text string, mode fs.FileMode, after time.Duration) error {
			at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC).Add(after)
			text = whole.Replace(text)
			return errors.Join(os.WriteFile(s.path, []byte(text), 0o600), os.Chmod(s.path, mode), os.Chtimes(s.path, at, at))
		},
		"gone": func() error { return os.Remove(s.path) },
		"linked": func() error { // it is only a link from now on
			s.Store = NewFile(s.path + ".link")
			return os.Symlink("users", s.path+".link")
		},
		"file": func() string {
			text, err := os.ReadFile(s.path)
			info, err2 := os.Stat(s.path)
			entries, err3 := os.ReadDir(filepath.Dir(s.path))
			if err := errors.Join(err, err2, err3); err != nil {
				return err.Error()
			}
			link, _ := os.Readlink(s.path + ".link")
			return fmt.Sprintf("%q\n%v, one of %d, link %q", text, info.Mode(), len(entries), link)
		},
		"first": func() string {
			name, password, ok, err := First(s.path)
			return fmt.Sprint(name, " ", password, " ", ok, " ", err)
		},
		// Of keys.
		"key": func(name, text string) { s.keys.texts["user/"+name] = whole.Replace(text) },
		"down": func(why string) {
			if s.keys.down = errors.New(why); why == errDown.Error() {
				s.keys.down = errDown
			}
		},
		"meanwhile": func(name, may string) { // between reading and writing
			s.keys.between = func() { s.keys.texts["user/"+name] = cheapest(s.t, name, may).line() }
		},
	}
}

// after says what the users are after a change.
func (s *stored) after(err error) (string, error) {
	var missing MissingError
	var exists ExistsError
	var last LastAdminError
	if errors.As(err, &missing) || errors.As(err, &exists) || errors.As(err, &last) {
		err = fmt.Errorf("%T %w", err, err)
	}
	_, list, unread := s.Changes(bg, "")
	if unread != nil && !errors.Is(unread, fs.ErrNotExist) {
		return "", err // why they cannot be read, another call says
	}
	var all []string
	for _, u := range list {
		all = append(all, u.Name+" "+u.Rights.String())
	}
	slices.Sort(all)
	return "users " + strings.Join(all, ", "), err
}
