package daemon

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
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

// answer sends a request. A server gives up a connection over which nothing has come for five seconds, as where the
// test stood still: nothing was sent, so it is sent over another one.
func answer(t *testing.T, r *http.Request) (status int, body string) {
	t.Helper()
	w, err := http.DefaultClient.Do(r)
	for n := 0; err != nil && strings.HasSuffix(err.Error(), "server closed idle connection") && n < 20; n++ {
		if r.GetBody != nil {
			r.Body, _ = r.GetBody()
		}
		w, err = http.DefaultClient.Do(r)
	}
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

// wakened is an engine that counts how often it is woken.
type wakened struct {
	server.Engine
	n int
}

func (w *wakened) Wake() { w.n++ }

// TestTheEngineIsWoken: by names that have ids again.
func TestTheEngineIsWoken(t *testing.T) {
	d, err := New(testConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer d.windows.Stop(true)
	e := &wakened{Engine: d.met("engine").Interface().(server.Engine)}
	d.met("engine").Set(reflect.ValueOf(e))
	if d.names.Wake(); e.n != 1 {
		t.Errorf("it was woken %d times", e.n)
	}
}

// TestWhatADefinitionMustFit: the daemon's own layout, run-ahead and worker ids.
func TestWhatADefinitionMustFit(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"worker ids go up to 40": func(c *Config) { c.WorkerIDs = []uint64{3, 40} },
		"worker ids go up to 41": func(c *Config) {
			c.WorkerIDs, c.Store.URL = nil, "redis://127.0.0.1:1"
			c.Store.Max = 41
		},
		"need a run-ahead of at least": func(c *Config) { c.MaxRunAhead = 0 },
		"objectid has 54 for both":     func(c *Config) { c.Layout.TimeBits, c.Layout.SequenceBits = 2, 51 },
	} {
		c := testConfig()
		c.Definitions = "a snowflake layout=js53; b snowflake layout=sonyflake; c objectid"
		if change(&c); !strings.Contains(fmt.Sprint(c.Validate()), want) {
			t.Errorf("%v, want %s", c.Validate(), want)
		}
	}
}
