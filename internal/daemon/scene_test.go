package daemon

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// A scene is daemons that share a directory, and what clients and operators get from them.
type scene struct {
	t       *testing.T
	dir     string
	users   string // a file
	config  Config // of the next daemon
	log     childprocess.Log
	daemons map[string]*Daemon
	clients map[string]*bufio.ReadWriter // one of each daemon
	known   [][2]string                  // values and the words that stand for them, the latest first
}

// TestScripts plays what running daemons do, and what settings are refused.
func TestScripts(t *testing.T) {
	files := []string{"admin", "daemon"}
	if runtime.GOOS == "linux" {
		files = append(files, "timestamps")
	}
	for _, file := range files {
		script.Run(t, "testdata/"+file+".txt", func(t *testing.T, play func(script.Do)) {
			s := &scene{t: t, dir: t.TempDir(), daemons: map[string]*Daemon{}, clients: map[string]*bufio.ReadWriter{}}
			s.config = testConfig()
			s.config.Log = slog.New(slog.NewTextHandler(&s.log, nil))
			calls := s.calls()
			play(func(words []string) string {
				for i := range words {
					for _, k := range s.known {
						words[i] = strings.ReplaceAll(words[i], k[1], k[0])
					}
				}
				return s.masked(calls.Do(t, words))
			})
		})
	}
}

// masks are what varies: ids, ports, and values that depend on how many blocks were taken.
var masks = []struct {
	of *regexp.Regexp
	by string
}{
	{regexp.MustCompile(`"(next|left)":"[2-9]\d+"`), `"$1":..`}, {regexp.MustCompile(`\b[1-9]\d{18}\b`), "ID"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f-]{27}\b`), "UUID"}, {regexp.MustCompile(`([:|])\d{5}\b`), "${1}PORT"},
	{regexp.MustCompile(`(until|"until":)([ "]+)\d{4}-[-T:.Z\d]+`), "$1${2}TIME"},
	{regexp.MustCompile(`(CONFIG cluster 0|at_hand|block|waits|waited_ms|request_duration_us) \d+`), "$1 .."},
}

// grouped finds ids as the page writes them.
var grouped = regexp.MustCompile(`\b\d(,\d{3}){6}\b`)

func (s *scene) masked(text string) string {
	text = strings.ReplaceAll(text, s.dir, "DIR")
	text = grouped.ReplaceAllStringFunc(text, func(id string) string { return strings.ReplaceAll(id, ",", "") })
	for _, k := range s.known {
		text = strings.ReplaceAll(text, k[0], k[1])
	}
	for _, m := range masks {
		text = m.of.ReplaceAllString(text, m.by)
	}
	return text
}

// set changes settings. DIR stands for the directory, USERS for the file of users, and PORT for a free port.
func (s *scene) set(c *Config, changes []string) {
	s.t.Helper()
	for _, change := range changes {
		change = strings.NewReplacer("DIR", s.dir, "USERS", s.users).Replace(change)
		if strings.HasSuffix(change, "=PORT") {
			change = strings.TrimSuffix(change, "PORT") + strconv.Itoa(redistest.FreePort(s.t))
		}
		if err := script.Set(c, change); err != nil {
			s.t.Fatal(change, err)
		}
	}
}

// fitting are the parts of lines that fit a pattern.
func fitting(lines []string, pattern string) string {
	var list []string
	for _, line := range lines {
		list = append(list, regexp.MustCompile(pattern).FindAllString(line, -1)...)
	}
	return strings.Join(list, "\n")
}

// own returns OWN instead of the host's address, which a daemon on all addresses says.
func own(c *Config, text string) string {
	if c.Bind == "" {
		text = strings.ReplaceAll(text, sockets.OwnAddress().String(), "OWN")
	}
	return text
}

// say sends a line to a daemon over the connection to it, and returns what comes before the answer to mn.
func (s *scene) say(who, line string) string {
	c := s.clients[who]
	fmt.Fprint(c, strings.ReplaceAll(line, `\n`, "\r\n"), "\r\nmn\r\n")
	c.Flush()
	var said strings.Builder
	for {
		line, err := c.ReadString('\n')
		if line == "MN\r\n" || err != nil {
			return own(&s.daemons[who].c, said.String())
		}
		said.WriteString(strings.TrimSuffix(line, "\r\n") + "\n")
	}
}

// connect makes a new connection to a daemon.
func (s *scene) connect(who string) {
	at := s.daemons[who].Addr()
	c, err := net.Dial(at.Network(), at.String())
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	s.clients[who] = bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c))
}

// ask asks a port over HTTP.
func (s *scene) ask(port, who, user, token, request, body string) string {
	status, text := s.daemons[who].ask(s.t, port, user, token, request, body)
	return fmt.Sprint(status, " ", strings.TrimSpace(text))
}

// page asks the HTTP port as a browser or as curl, and returns what fits a pattern.
func (s *scene) page(who, accept, path, pattern string) string {
	_, text := fetch(s.t, "http://"+s.daemons[who].services.Addresses()[0].At.String()+path, accept)
	return fitting(strings.Split(text, "\n"), pattern)
}

// name lets a word stand for a value from now on.
func (s *scene) name(value, word string) {
	v, _ := strconv.ParseUint(value, 10, 64)
	s.known = append([][2]string{{value, word}, {fmt.Sprint(float64(v)), "about " + word}}, s.known...)
}

// administer asks the admin port that a daemon would have.
func (s *scene) administer(who, request string) string {
	status, text := s.daemons[who].administer(s.t, request)
	return fmt.Sprint(status, " ", strings.TrimSpace(text))
}

func (s *scene) problems(err error) string {
	var list []string
	for _, p := range problem.Of(err) {
		list = append(list, p.Field+": "+p.Err.Error())
	}
	return strings.Join(list, "\n")
}

func (s *scene) calls() script.Calls {
	get := func(who, key string) string {
		_, value, _ := strings.Cut("\n"+s.say(who, "get "+key), "\nVALUE ")
		if value == "" {
			return s.say(who, "get "+key)
		}
		return strings.Split(value, "\n")[1]
	}
	return script.Calls{
		"settings": func(changes ...string) { s.set(&s.config, changes) },
		"users":    func(lines ...string) { s.users = authFile(s.t, lines...) },
		"file":     func(name, text string) { tempfile.Write(s.t, filepath.Join(s.dir, name), text+"\n") },
		"remove":   func(name string) error { return os.Remove(filepath.Join(s.dir, name)) },
		"valid": func(changes ...string) string {
			c := s.config
			s.set(&c, changes)
			return s.problems(c.Validate())
		},
		"secrets": func() string { return s.problems(s.config.ReadSecrets()) },
		"new": func(changes ...string) string {
			c := s.config
			s.set(&c, changes)
			_, err := New(s.t.Context(), c)
			return s.problems(err)
		},
		"announced": func(changes ...string) string {
			c := s.config
			s.set(&c, changes)
			if c.windows().Peers.Address == nil {
				return "nothing"
			}
			host, port := c.ownAddress()
			return own(&c, fmt.Sprint(host, " ", port))
		},
		"daemon": func(who string, changes ...string) {
			d, _ := run(s.t, func(c *Config) {
				*c = s.config
				s.set(c, changes)
			})
			s.daemons[who] = d
			s.connect(who)
		},
		"etcd": func() { s.config.Counters.URL = etcdtest.URL(s.t, etcdtest.Start(s.t)) },
		// the last word of an answer has a name from then on
		"as": func(name string, words ...string) {
			f := strings.Fields(s.calls().Do(s.t, words))
			s.name(f[len(f)-1], name)
		},
		"raise": func(who, name string, ahead time.Duration) string { // to FLOOR
			floor, err := generator.Katsubushi().Compose(
				generator.Parts{Time: time.Now().Add(ahead), Worker: 1000, Sequence: 9})
			if err != nil {
				s.t.Fatal(err)
			}
			s.name(fmt.Sprint(floor), "FLOOR")
			return s.administer(who, fmt.Sprintf("POST /generators/%s/raise?at_least=%d", name, floor))
		},
		"administer": s.administer,
		"reload":     func(who string) { s.daemons[who].Reload() },
		"leave":      func(who string) { s.daemons[who].observer.Leave() },
		"connect":    s.connect, "say": s.say, "get": get,
		"knock": func(who, request string) string { // over a connection of its own, and hears one line
			return one(s.t, s.daemons[who].Addr().String(), strings.ReplaceAll(request, `\n`, "\r\n")+"\r\n")
		},
		"from": func(who, key string, least int) bool { // it gets no value below
			v, _ := strconv.Atoi(get(who, key))
			return v >= least
		},
		"admin": func(who, token, request, body string) string { return s.ask("admin", who, "", token, request, body) },
		"guess": func(who, port, user string, times int) (last string) {
			for i := range times {
				last = s.ask(port, who, user, fmt.Sprint("guess", i), "GET /users", "")
			}
			return last
		},
		"http": func(who, token, path string) string { return s.ask("HTTP", who, "", token, "GET "+path, "") },
		"http-as": func(who, user, password, path string) string {
			return s.ask("HTTP", who, user, password, "GET "+path, "")
		},
		"html":     func(who, path, pattern string) string { return s.page(who, "text/html", path, pattern) },
		"text":     func(who, path, pattern string) string { return s.page(who, "text/plain", path, pattern) },
		"view":     func(who, pattern string) string { return fitting(s.daemons[who].pageLines(), pattern) },
		"stats":    func(who, group, pattern string) string { return fitting(s.daemons[who].statLines(group), pattern) },
		"metrics":  func(who, pattern string) string { return fitting(s.daemons[who].metricLines(), pattern) },
		"log":      func(pattern string) string { return fitting(strings.Split(s.log.String(), "\n"), pattern) },
		"complain": func(who string) { s.daemons[who].overHTTP().Log.Print("a complaint of net/http") },
		"events": func(who, pattern string) string {
			var lines []string
			for _, e := range s.daemons[who].events.Last(events.Size) {
				lines = append(lines, fmt.Sprint(e.Text, e.Attrs))
			}
			return fitting(lines, pattern)
		},
	}
}
