package daemon

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// forms are what the ids of a key of manyKinds look like.
var forms = map[string]*regexp.Regexp{
	"id": regexp.MustCompile(`^\d{19}$`), "same": regexp.MustCompile(`^\d{19}$`), "other": regexp.MustCompile(`^\d{19}$`),
	"insta": regexp.MustCompile(`^\d{19}$`),
	"u4":    regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
	"u7":    regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
	"ul":    regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`),
	"{o}d":  regexp.MustCompile(`^[0-9a-f]{24}$`),
}

const manyKinds = "u4 uuid4; u7 uuid7; ul ulid; {o}d objectid; same snowflake; insta snowflake layout=instagram"

// mixed has keys of all kinds, neighbours of one kind and the same key twice.
var mixed = strings.Fields("u7 u7 id u4 other other ul {o}d same ul u4 insta id u7 {o}d insta insta")

// check checks that texts are ids of the kinds of their keys, and new.
func checkTexts(t *testing.T, how string, seen map[string]bool, keys, texts []string) {
	t.Helper()
	if len(texts) != len(keys) {
		t.Fatalf("%s: %d answers to %d keys: %q", how, len(texts), len(keys), texts)
	}
	for i, key := range keys {
		if !forms[key].MatchString(texts[i]) || seen[texts[i]] {
			t.Errorf("%s: %s is answered %q", how, key, texts[i])
		}
		seen[texts[i]] = true
	}
}

// TestKindsByName: every grammar on every port answers every kind, in the order of the keys.
func TestKindsByName(t *testing.T) {
	for _, engine := range enginesHere() {
		t.Run(engine, func(t *testing.T) {
			udp := redistest.FreePort(t)
			d, address := run(t, func(c *Config) {
				c.Engine, c.Definitions, c.HTTPPort, c.UDPPort = engine, manyKinds, redistest.FreePort(t), udp
			})
			await(t, "every name is ready", func() bool { // another layout needs half a second at a start without a record
				return !slices.ContainsFunc(d.names.Catalog.Names(), func(g *issuer.Name) bool {
					return g.From.Ready(d.windows.Clock.Now()) != nil
				})
			})
			seen, c := map[string]bool{}, dial(t, address)
			r := bufio.NewReader(c)
			for _, verb := range []string{"get", "gets", "gat 0"} {
				fmt.Fprintf(c, "%s %s\r\n", verb, strings.Join(mixed, " "))
				checkTexts(t, verb, seen, mixed, values(t, r, mixed, verb == "gets"))
			}
			for _, key := range mixed {
				fmt.Fprintf(c, "get %s\r\n", key)
				checkTexts(t, "get of one key", seen, []string{key}, values(t, r, []string{key}, false))
				fmt.Fprintf(c, "mg %s k s c f v\r\n", key)
				checkTexts(t, "mg", seen, []string{key}, []string{metaValue(t, r, key)})
			}
			b := dial(t, address)
			checkTexts(t, "GETK", seen, mixed, binaryValues(t, b, mixed))
			checkTexts(t, "UDP", seen, mixed[:3], datagramValues(t, udp, mixed[:3]))
			checkTexts(t, "HTTP", seen, mixed, overHTTP(t, d, mixed))
			counts := map[string]uint64{}
			for _, g := range d.names.Catalog.Names() {
				counts[g.Name] = g.Issued()
			}
			for name, got := range counts { // five requests with several keys, and three for each key alone: get, mg, HTTP
				want := uint64(0)
				for i, key := range mixed {
					if key == name {
						want += 3 + 2 + 1 + 1
						if i < 3 {
							want++
						}
					}
				}
				if got != want {
					t.Errorf("%s has issued %d, and counted %d", name, want, got)
				}
			}
		})
	}
}

// values reads the answer to a get. cas says that there is one: the id if it is a number, else 0.
func values(t *testing.T, r *bufio.Reader, keys []string, cas bool) (texts []string) {
	t.Helper()
	for _, key := range keys {
		head, _ := r.ReadString('\n')
		text, err := r.ReadString('\n')
		text = strings.TrimSuffix(text, "\r\n")
		want := fmt.Sprintf("VALUE %s 0 %d", key, len(text))
		if cas {
			want += " " + casOf(text)
		}
		if err != nil || head != want+"\r\n" {
			t.Fatalf("%q is answered %q %q, %v", key, head, text, err)
		}
		texts = append(texts, text)
	}
	if end, err := r.ReadString('\n'); end != "END\r\n" {
		t.Fatalf("%q, %v after the values", end, err)
	}
	return texts
}

func casOf(text string) string {
	if _, err := strconv.ParseUint(text, 10, 64); err != nil {
		return "0"
	}
	return text
}

func metaValue(t *testing.T, r *bufio.Reader, key string) string {
	t.Helper()
	head, _ := r.ReadString('\n')
	text, err := r.ReadString('\n')
	text = strings.TrimSuffix(text, "\r\n")
	if want := fmt.Sprintf("VA %d k%s s%d c%s f0\r\n", len(text), key, len(text), casOf(text)); err != nil ||
		head != want {
		t.Fatalf("%q is answered %q %q, %v", key, head, text, err)
	}
	return text
}

// binaryValues sends a GETKQ for each key and a NOOP.
func binaryValues(t *testing.T, c net.Conn, keys []string) (texts []string) {
	t.Helper()
	header := func(opcode byte, key string, opaque int) []byte {
		h := []byte{0x80, opcode, 0, byte(len(key)), 0, 0, 0, 0}
		h = binary.BigEndian.AppendUint32(h, uint32(len(key)))
		h = binary.BigEndian.AppendUint32(h, uint32(opaque))
		return append(append(h, make([]byte, 8)...), key...)
	}
	var requests []byte
	for i, key := range keys {
		requests = append(requests, header(0x0d, key, i)...)
	}
	c.Write(append(requests, header(0x0a, "", len(keys))...))
	for i := range len(keys) + 1 {
		h := make([]byte, 24)
		if _, err := io.ReadFull(c, h); err != nil {
			t.Fatal(err)
		}
		body := make([]byte, binary.BigEndian.Uint32(h[8:]))
		io.ReadFull(c, body)
		if status := binary.BigEndian.Uint16(h[6:]); status != 0 || int(binary.BigEndian.Uint32(h[12:])) != i {
			t.Fatalf("response %d has status %d, opaque %d: %q", i, status, binary.BigEndian.Uint32(h[12:]), body)
		}
		if i == len(keys) {
			break
		}
		key, text := string(body[4:4+len(keys[i])]), string(body[4+len(keys[i]):])
		if cas := binary.BigEndian.Uint64(h[16:]); key != keys[i] || strconv.FormatUint(cas, 10) != casOf(text) {
			t.Errorf("%q is answered %q %q with cas %d", keys[i], key, text, cas)
		}
		texts = append(texts, text)
	}
	return texts
}

func datagramValues(t *testing.T, port int, keys []string) []string {
	t.Helper()
	c, err := net.Dial("udp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	for _, key := range keys[:len(keys)-1] { // alone, with spaces: a reply is at most four times as long
		fmt.Fprintf(c, "\x00\x01\x00\x00\x00\x01\x00\x00get %s%30s\r\n", key, "")
	}
	fmt.Fprintf(c, "\x00\x01\x00\x00\x00\x01\x00\x00get %s%30s\r\n", keys[len(keys)-1], "")
	var texts []string
	for _, key := range keys {
		b := make([]byte, 1500)
		n, err := c.Read(b)
		if err != nil || n < 8 {
			t.Fatal(n, err)
		}
		texts = append(texts, values(t, bufio.NewReader(strings.NewReader(string(b[8:n]))), []string{key}, false)...)
	}
	return texts
}

// overHTTP asks for one id of each key, as text and as JSON in turns.
func overHTTP(t *testing.T, d *Daemon, keys []string) (texts []string) {
	t.Helper()
	var base string
	for _, s := range d.services.Addresses() {
		base = "http://" + s.At.String()
	}
	for i, key := range keys {
		path, accept, before, after := "/id/"+key, "", "", ""
		if i%2 == 1 {
			path, accept, before, after = "/ids/"+key+"?n=1", "application/json", `{"ids":["`, "\"]}\n"
		}
		status, body := fetch(t, base+path, accept)
		if status != 200 || !strings.HasPrefix(body, before) || !strings.HasSuffix(body, after) {
			t.Fatalf("%s: %d %q", path, status, body)
		}
		texts = append(texts, body[len(before):len(body)-len(after)])
	}
	return texts
}

func fetch(t *testing.T, url, accept string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	return answer(t, r)
}

// answer sends a request.
func answer(t *testing.T, r *http.Request) (status int, body string) {
	t.Helper()
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(text)
}

// TestUnknownNamesOfADaemon: -unknown-keys reaches every port.
func TestUnknownNamesOfADaemon(t *testing.T) {
	udp := redistest.FreePort(t)
	d, address := run(t, func(c *Config) {
		c.Definitions, c.RefuseUnknown, c.HTTPPort, c.UDPPort = "u7 uuid7", true, redistest.FreePort(t), udp
	})
	c := dial(t, address)
	r := bufio.NewReader(c)
	io.WriteString(c, "get u7 u8\r\nget id\r\nget 17\r\n")
	if line, _ := r.ReadString('\n'); line != "CLIENT_ERROR no such generator: u8\r\n" {
		t.Errorf("%q", line)
	}
	values(t, r, []string{"id"}, false)
	values(t, r, []string{"17"}, false)
	base := "http://" + d.services.Addresses()[0].At.String()
	for path, want := range map[string]int{"/id": 200, "/ids?n=3": 200, "/id/id": 200, "/id/1": 200, "/id/u7": 200,
		"/id/u8": 404, "/ids/u8?n=3": 404} {
		if status, body := fetch(t, base+path, ""); status != want || want == 404 && body != "no such generator: u8\n" {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	u, err := net.Dial("udp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(udp)))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	u.SetDeadline(time.Now().Add(patience))
	io.WriteString(u, "\x00\x01\x00\x00\x00\x01\x00\x00get u8\r\n")
	b := make([]byte, 100)
	if n, err := u.Read(b); err != nil || string(b[8:n]) != "CLIENT_ERROR no such generator: u8\r\n" {
		t.Errorf("%q, %v", b[:n], err)
	}
}

// logged keeps the lines of a log that are about generators, and passes all on.
type logged struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }

func (l *logged) Handle(ctx context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	if strings.Contains(line, "name") && !strings.HasPrefix(line, "INFO engine") {
		l.mu.Lock()
		l.lines = append(l.lines, line)
		l.mu.Unlock()
	}
	return l.Handler.Handle(ctx, r)
}

// take returns the lines since the last take.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.lines = nil }()
	return strings.Join(l.lines, "\n")
}

func TestReloadOfNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "names")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a uuid7\n")
	log := new(logged)
	d, address := run(t, func(c *Config) {
		c.Definitions, c.DefinitionsFile = "f ulid", file
		log.Handler = c.Log.Handler()
		c.Log = slog.New(log)
	})
	c := dial(t, address)
	r := bufio.NewReader(c)
	kindsNow := func() (got string) {
		for _, key := range strings.Fields("a b c f") {
			fmt.Fprintf(c, "get %s\r\n", key)
			got += fmt.Sprint(len(values(t, r, []string{key}, false)[0]), " ")
		}
		return got
	}
	for _, step := range []struct{ text, log, kinds string }{
		{"a uuid7\nb objectid\n", "INFO name definition=b objectid\nINFO reloaded what=names", "36 24 19 26 "},
		{"b uuid4\na uuid7\nc ulid\nx\nc uuid4\n",
			`ERROR not reloaded, the old one stays in force what=names error=line 1: "b uuid4" is not what is served as ` +
				`"b objectid": to change it, restart the daemon` + "\n" +
				`ERROR not reloaded, the old one stays in force what=names error=line 4: "x": a kind must follow the ` +
				`name: snowflake, sequence, uuid4, uuid7, ulid, objectid allowed` + "\n" +
				`ERROR not reloaded, the old one stays in force what=names error=line 5: "c" is declared already, by line 3`,
			"36 24 19 26 "},
		{"f uuid4\n",
			`ERROR not reloaded, the old one stays in force what=names error=line 1: "f uuid4" is not what is served as ` +
				`"f ulid": to change it, restart the daemon` + "\n" +
				`ERROR not reloaded, the old one stays in force what=names error=line 1: "f" is declared already, by "f ulid"`,
			"36 24 19 26 "},
		{"", "WARN a name is no longer in the file: it is served until the daemon stops name=a\n" +
			"WARN a name is no longer in the file: it is served until the daemon stops name=b\nINFO reloaded " +
			"what=names", "36 24 19 26 "},
		{"c ulid # again\n", "WARN a name is no longer in the file: it is served until the daemon stops name=a\n" +
			"WARN a name is no longer in the file: it is served until the daemon stops name=b\nINFO name " +
			"definition=c ulid\nINFO reloaded what=names", "36 24 26 26 "},
	} {
		write(step.text)
		d.Reload()
		if got := log.take(); got != step.log {
			t.Errorf("%q is logged as\n%s\nwant\n%s", step.text, got, step.log)
		}
		if got := kindsNow(); got != step.kinds {
			t.Errorf("after %q the ids have the lengths %s, want %s", step.text, got, step.kinds)
		}
	}
	os.Remove(file)
	d.Reload()
	if got := log.take(); !strings.HasPrefix(got,
		"ERROR not reloaded, the old one stays in force what=names error=open "+file) || kindsNow() != "36 24 26 26 " {
		t.Error(got)
	}
	var all []string
	for _, g := range d.names.Catalog.Names() {
		all = append(all, g.String())
	}
	if !slices.Equal(all, []string{"f ulid", "a uuid7", "b objectid", "c ulid"}) {
		t.Errorf("%q", all)
	}
}

// waiting is a kind whose only id comes later.
type waiting struct{ ready atomic.Bool }

func (w *waiting) Source(int) id.Source { return w }
func (w *waiting) Ready(int64) error    { return nil }

func (w *waiting) Mint(id.When, int, bool) (id.Run, error) {
	if !w.ready.Load() {
		return id.Run{}, id.ErrWait
	}
	return id.Run{N: 1}, nil
}

// wakened is an engine that counts how often it is woken.
type wakened struct {
	server.Engine
	n int
}

func (w *wakened) Wake() { w.n++ }

// TestEverybodyIsWoken: HTTP's requests ask again at once, not after issuer.Patience, and the
// engine is told.
func TestEverybodyIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := New(testConfig())
		if err != nil {
			t.Fatal(err)
		}
		defer d.windows.Stop(true)
		w, e := new(waiting), &wakened{Engine: d.met("engine").Interface().(server.Engine)}
		d.met("engine").Set(reflect.ValueOf(e))
		d.names.Catalog.Declare([]issuer.Declared{{Definition: kinds.Declared(counter.Definition{Name: "w"}), From: w}})
		began, answered := time.Now(), make(chan error)
		go func() {
			_, err := d.names.Catalog.Batch(t.Context(), []byte("w"), 1)
			answered <- err
		}()
		synctest.Wait()
		w.ready.Store(true)
		d.names.Wake()
		if err := <-answered; err != nil || !time.Now().Equal(began) || e.n != 1 {
			t.Errorf("%v after %v, the engine was woken %d times", err, time.Since(began), e.n)
		}
	})
}

func TestDefinitionsThatADaemonCannotServe(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) {
			c.Definitions = "a sequence"
		}, `Definitions: "a sequence": there is no place to record it: give -state-dir DIRECTORY`},
		{func(c *Config) {
			c.Layout, c.Definitions = generator.Layout{Epoch: 1420070400000, Unit: 1000, TimeBits: 2, WorkerBits: 1,
				SequenceBits: 60}, "a objectid"
		}, `Definitions: "a objectid": generator: 1 worker + 60 sequence bits: objectid has 54 for both`},
		{func(c *Config) {
			c.WorkerIDs, c.Definitions = []uint64{3, 40}, "a snowflake layout=js53"
		}, `Definitions: "a snowflake layout=js53": worker ids go up to 40: layout js53 has 0 to 31`},
		{func(c *Config) {
			c.MaxRunAhead, c.Definitions = 0, "a snowflake layout=sonyflake"
		},
			`Definitions: "a snowflake layout=sonyflake": issuer: ids of layout sonyflake beside katsubushi need a run-ahead ` +
				`of at least 22ms, not 0s`},
	} {
		cfg := testConfig()
		c.change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
