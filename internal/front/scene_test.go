package front

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/users"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A scene is a Front that listens nowhere, with a memcached and a Redis port, and its clients.
type scene struct {
	*world
	t        *testing.T
	clients  map[string]*client
	store    *kept
	settings Config
	logged   int // bytes of the log that were told

	certified bool // another port uses the certificate
}

// A client is one session. What it does not read is left for the next one.
type client struct {
	server.Session
	port int
	peer netip.Addr
	rest []byte
}

// configure makes settings of words.
func (s *scene) configure(words ...string) (c Config) {
	c = testConfig()
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		number := func() int64 {
			n, err := strconv.ParseInt(value, 0, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			return n
		}
		duration := func() time.Duration {
			d, err := time.ParseDuration(value)
			if err != nil {
				s.t.Fatal(err)
			}
			return d
		}
		switch name {
		case "idle":
			c.IdleTimeout = duration()
		case "drain":
			c.DrainTimeout = duration()
		case "loops":
			c.Loops = int(number())
		case "connections":
			c.MaxConnections = int(number())
		case "memory":
			c.MaxBufferMemory = number()
		case "port":
			c.Port = int(number())
		case "redis":
			c.RedisPort = int(number())
		case "udp":
			c.UDPPort = int(number())
		case "sock":
			c.Sock = strings.Repeat("x", int(number()))
		case "mode":
			c.SockMode = os.FileMode(number())
		case "bind":
			c.Bind = value
		case "engine":
			c.Engine = value
		case "cert":
			c.TLSCert = value
		case "key":
			c.TLSKey = value
		case "authorities":
			c.TLSClientCA = value
		case "auth":
			c.AuthFile = value
		case "users":
			c.Users = value
		default:
			s.t.Fatalf("%q: what is that?", word)
		}
	}
	return c
}

// front makes the Front, with such settings.
func (s *scene) front(words ...string) {
	s.world = newFront(s.t, func(c *Config, g *Given) {
		*c, g.Certified = s.configure(append([]string{"redis=1"}, words...)...), s.certified
	})
	s.issue(s.t)
	s.t.Cleanup(s.stop)
}

// write writes the file of users: NAME:PASSWORD, or NAME=RIGHTS of one whose token is the name.
func (s *scene) write(list ...string) error {
	var text strings.Builder
	for _, line := range list {
		if name, rights, ok := strings.Cut(line, "="); ok {
			line = fmt.Sprintf("%s:$token-sha256$%x:%s", name, sha256.Sum256([]byte(name)), rights)
		}
		text.WriteString(line + "\n")
	}
	return os.WriteFile("auth", []byte(text.String()), 0o600)
}

// says sends something, and returns the answer, which a client waits for.
func (s *scene) says(name, in string) (string, error) {
	c, began := s.clients[name], time.Now()
	c.rest = append(c.rest, unquoted(s.t, in)...)
	var reply []byte
	for {
		n, more, _, err := server.Converse(&c.Session, 1, c.rest, reply)
		if c.rest, reply = c.rest[n:], more; server.Waits(err) {
			time.Sleep(server.ParkPause)
			continue
		}
		text := ids.ReplaceAllString(strconv.Quote(string(reply)), "..$1")
		if took := time.Since(began); took > 0 {
			text += fmt.Sprint(" after ", took.Round(100*time.Millisecond))
		}
		return text, err
	}
}

// client connects a client.
func (s *scene) client(name string, port, loop int, peer string) {
	c := &client{Session: s.session(port, loop), port: port, peer: netip.MustParseAddr(peer)}
	if p, ok := c.Session.(server.PeerSession); ok {
		p.Peer(c.peer)
	}
	s.clients[name] = c
}

// guesses makes n logins that are wrong, of new connections to both loops, or over HTTP.
func (s *scene) guesses(way, peer string, n int) {
	for i := range n {
		guess := fmt.Sprintf("g%02d", i)
		switch way {
		case "memcached":
			s.client("guesser", 0, i%s.c.Loops, peer)
			s.says("guesser", `set x 0 0 7\r\nann `+guess+`\r\n`)
		case "http":
			s.http(peer, "ann", guess)
		case "token":
			s.http(peer, guess)
		}
	}
}

// ids are those that the lane has issued.
var ids = regexp.MustCompile(`\d{16}(\d{3})`)

func unquoted(t *testing.T, text string) string {
	text, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return text
}

// move freezes a session, and resumes it with the users that there are now.
func (s *scene) move(name string) (string, error) {
	c := s.clients[name]
	state, ok := c.Session.(server.Movable).Freeze()
	if !ok {
		return "it does not freeze", nil
	}
	next, err := s.seenBy(c.port).Reopen(0, nil, state)
	if err != nil {
		return strconv.Quote(string(state)), err
	}
	next.(server.PeerSession).Peer(c.peer)
	c.Session = next
	return strconv.Quote(string(state)), nil
}

// http is a login over HTTP, with a token alone if there is no password.
func (s *scene) http(peer, user string, password ...string) (string, error) {
	c := users.Credentials{Token: []byte(user)}
	if len(password) > 0 {
		c = users.Credentials{User: []byte(user), Password: []byte(password[0])}
	}
	login := s.Login()
	if login == nil {
		return "nobody needs to", nil
	}
	a, err := login(s.t.Context(), netip.MustParseAddr(peer), c)
	if a == nil {
		return "refused", err
	}
	return a.Name, err
}

// A statistics handler has these.
type statistics struct {
	protocol.Handler
	names []string
}

func (h statistics) Stats(_ []byte, emit func(name, value string)) bool {
	for _, name := range h.names {
		emit(name, "")
	}
	return true
}

// kept is a store of users that the script changes.
type kept struct {
	users.Store
	sync.Mutex
	since string
	list  []users.User
	err   error
	asked int
}

func (k *kept) Changes(_ context.Context, since string) (string, []users.User, error) {
	k.Lock()
	defer k.Unlock()
	k.asked++
	switch {
	case k.err != nil:
		return "", nil, k.err
	case since == k.since:
		return since, nil, nil
	}
	return k.since, k.list, nil
}

// besides says what was logged.
func (s *scene) besides() string {
	if s.world == nil {
		return ""
	}
	text := s.log.String()
	var said []string
	for line := range strings.Lines(text[s.logged:]) {
		if _, line, _ = strings.Cut(line, "level="); !strings.Contains(line, "msg=engine ") {
			line, _, _ = strings.Cut(line, " at=")
			line, _, _ = strings.Cut(line, " from=")
			said = append(said, "- "+strings.TrimSpace(line))
		}
	}
	s.logged = len(text)
	return strings.Join(said, "\n")
}

// TestScripts: testdata has what clients get, who log in or do not, what settings are wrong, and what is said of a
// certificate. A token of a user is its name.
func TestScripts(t *testing.T) {
	for _, name := range []string{"settings", "certificates", "protocols", "logins", "moves"} {
		t.Run(name, func(t *testing.T) { steps.Run(t, "testdata/"+name+".txt", begin) })
	}
}

func begin(t *testing.T) steps.Calls {
	time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
	t.Chdir(t.TempDir())
	s := &scene{t: t, clients: map[string]*client{}, store: &kept{}}
	return steps.Calls{
		"":      s.besides,
		"sleep": time.Sleep,
		"valid": func(words ...string) error {
			c := s.configure(words...)
			return c.Validate()
		},
		"secrets": func(words ...string) error { // or those of the same settings again
			if len(words) > 0 {
				s.settings = s.configure(words...)
			}
			return s.settings.ReadSecrets()
		},
		"certificate": func(from time.Duration) error { // that will be valid then
			_, err := selfsigned.WriteFrom("cert", "key", 1, time.Now().Add(from))
			return err
		},
		"beside": func() { s.certified = true },
		"uses": func() string {
			return fmt.Sprintf("encrypted: %v; certified: %v; the engine is the one that encrypts: %v", s.Encrypted(),
				s.Certified(), strings.Contains(s.log.String(), "it is the one that encrypts"))
		},
		"reload": func() (said string, err error) {
			s.Reload(func(what string, failed error) { said, err = said+what, errors.Join(err, failed) })
			return said, err
		},
		"remove": os.Remove,
		"front":  s.front,
		"write":  s.write,
		"users": func(list ...string) (err error) {
			err = s.write(list...)
			s.Reload(func(what string, failed error) { err = errors.Join(err, failed) })
			return err
		},
		"client":  s.client,
		"session": func(name string) string { return fmt.Sprintf("%T", s.clients[name].Session) },
		"says":    s.says,
		"guesses": s.guesses,
		"refuses": func(peer string) bool { return s.logins.limit.Refuses(netip.MustParseAddr(peer)) },
		"move":    s.move,
		"http":    s.http,
		"stats": func(user string, names ...string) string { // which of them it is told
			var told []string
			g := &guard{Handler: statistics{names: names}, rights: s.logins.directory.Account(user).Rights()}
			if !g.Stats(nil, func(name, _ string) { told = append(told, name) }) {
				t.Error("there is no such group")
			}
			return strings.Join(told, " ")
		},
		"follow": func() {
			s.UseUsers(s.store)
			s.Start(nil)
		},
		"end": func() { s.stop() },
		"store": func(since, failure string, names ...string) {
			k := s.store
			k.Lock()
			defer k.Unlock()
			if k.since, k.list, k.err = since, nil, nil; failure != "" {
				k.err = errors.New(failure)
			}
			for _, name := range names {
				k.list = append(k.list, users.User{Name: name})
			}
		},
		"asked": func() (n int) {
			s.store.Lock()
			defer s.store.Unlock()
			n, s.store.asked = s.store.asked, 0
			return n
		},
	}
}
