package daemon

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// forms are what the ids of a key look like.
var forms = map[string]*regexp.Regexp{
	"id": snowflakes, "same": snowflakes, "other": snowflakes, "insta": snowflakes, "tx": snowflakes,
	"orders": regexp.MustCompile(`^\d+$`), "evens": regexp.MustCompile(`^\d+$`),
	"u4":   regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
	"u7":   regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`),
	"ul":   regexp.MustCompile(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`),
	"{o}d": regexp.MustCompile(`^[0-9a-f]{24}$`),
}

var snowflakes = regexp.MustCompile(`^\d{19}$`)

const (
	manyKinds = "u4 uuid4; u7 uuid7; ul ulid; {o}d objectid; same snowflake; insta snowflake layout=instagram"
	counting  = "; orders sequence; evens sequence start=1000 step=2 offset=2"
	txLine    = "tx snowflake layout=katsubushi order=strict node=1000"
)

// mixed has keys of all kinds, neighbours of one kind and the same key twice.
var mixed = strings.Fields("u7 u7 id orders u4 other other ul orders {o}d same ul u4 insta id evens u7 {o}d insta " +
	"insta evens orders")

// A witness checks ids one by one, in the order of issue: each has the form of its key and is new, each value of a
// sequence follows the one before, and each timestamp is above all before, of node 1000, and of now.
type witness struct {
	seen map[string]bool
	next map[string]uint64 // of each sequence
	last uint64            // timestamp
	got  map[string]uint64 // by key
	log  childprocess.Log
}

// gap says whether a value is the first one after blocks that were lost: on a machine that stands still, the answer to
// a block may come too late, and the log says so.
func (w *witness) gap(key string, v uint64) bool {
	if v < w.next[key] || key == "evens" && v%2 > 0 ||
		!strings.Contains(w.log.String(), `msg="a sequence got no block" sequence=`+key+" ") {
		return false
	}
	w.next[key] = v
	return true
}

func (w *witness) check(t *testing.T, how string, keys, texts []string) {
	t.Helper()
	if len(texts) != len(keys) {
		t.Fatalf("%s: %d answers to %d keys: %q", how, len(texts), len(keys), texts)
	}
	for i, key := range keys {
		text := texts[i]
		v, _ := strconv.ParseUint(text, 10, 64)
		parts := generator.Katsubushi().Decompose(v)
		as := "" // or what else is wrong
		switch {
		case !forms[key].MatchString(text):
			as = "as is the form of its key"
		case key == "tx" && (v <= w.last || parts.Worker != 1000 || time.Since(parts.Time).Abs() > patience):
			as = fmt.Sprintf("above %d, of now and of node 1000", w.last)
		case w.next[key] > 0 && v != w.next[key] && !w.gap(key, v):
			as = fmt.Sprint(w.next[key])
		case w.next[key] == 0 && w.seen[text]:
			as = "once"
		}
		if as != "" {
			t.Fatalf("%s: %s is answered %s, not %s", how, key, text, as)
		}
		switch key {
		case "tx":
			w.last = v
		case "orders":
			w.next[key]++
		case "evens":
			w.next[key] += 2
		}
		w.seen[text] = w.next[key] == 0
		w.got[key]++
	}
}

// row checks n ids in a row, of which step apart the answer is the last.
func (w *witness) row(t *testing.T, how, key, answer string, n, step uint64) {
	t.Helper()
	last, err := strconv.ParseUint(answer, 10, 64)
	if err != nil {
		t.Fatalf("%s: %q", how, answer)
	}
	for i := range n {
		w.check(t, how, []string{key}, []string{strconv.FormatUint(last-(n-1-i)*step, 10)})
	}
}

// TestIDsOverEveryPort: every grammar on every port of every engine answers every kind, in the order of the keys. One
// daemon follows another, and no value of a sequence is missing between them.
func TestIDsOverEveryPort(t *testing.T) {
	w := &witness{seen: map[string]bool{}, next: map[string]uint64{"orders": 1, "evens": 1000}}
	dir, keys, definitions := t.TempDir(), mixed, manyKinds+counting
	if runtime.GOOS == "linux" {
		keys, definitions = append(keys, "tx", "tx", "tx"), definitions+"; "+txLine
	}
	for _, engine := range enginesHere() {
		t.Run(engine, func(t *testing.T) {
			udp := redistest.FreePort(t)
			d, address := run(t, func(c *Config) {
				c.Log = slog.New(slog.NewTextHandler(&w.log, nil))
				c.Engine, c.Definitions, c.HTTPPort, c.UDPPort = engine, definitions, redistest.FreePort(t), udp
				c.Counters.Dir, c.AnyDisk, c.MaxWait = dir, true, patience
			})
			await(t, "every name is ready", func() bool { // another layout needs half a second at a start without a record
				return !slices.ContainsFunc(d.names.Catalog.Names(), func(g *issuer.Name) bool {
					return g.From.Ready(d.windows.Clock.Now()) != nil
				})
			})
			w.got = map[string]uint64{}
			c := dial(t, address)
			r := bufio.NewReader(c)
			for _, verb := range []string{"get", "gets", "gat 0", "gats 0"} {
				for _, keys := range [][]string{keys, slices.Repeat([]string{"orders"}, 100)} {
					fmt.Fprintf(c, "%s %s\r\n", verb, strings.Join(keys, " "))
					w.check(t, verb, keys, values(t, r, keys, strings.Contains(verb, "ts")))
				}
			}
			for _, key := range keys {
				w.check(t, "get of one key", []string{key}, []string{one(t, address, "get "+key+"\r\n")})
				fmt.Fprintf(c, "gets %s\r\n", key)
				w.check(t, "gets of one key", []string{key}, values(t, r, []string{key}, true))
				fmt.Fprintf(c, "mg %s k s c f v\r\n", key)
				w.check(t, "mg", []string{key}, []string{metaValue(t, r, key)})
				w.check(t, "GET", []string{key}, []string{one(t, address, array("GET", key))})
			}
			w.check(t, "GETK", keys, binaryValues(t, dial(t, address), keys))
			some := append(slices.Clone(keys[:4]), keys[len(keys)-3:]...)
			w.check(t, "UDP", some, datagramValues(t, udp, some))
			w.check(t, "HTTP", keys, overHTTP(t, d, keys))
			w.check(t, "MGET", keys, redisValues(t, dial(t, address), keys))
			w.row(t, "incr", "evens", one(t, address, "incr evens 300\r\n"), 300, 2)
			if runtime.GOOS == "linux" {
				w.timestamps(t, d, address)
			}
			for _, g := range d.names.Catalog.Names() {
				if g.Issued() != w.got[g.Name] {
					t.Errorf("%s has issued %d, and counted %d", g.Name, w.got[g.Name], g.Issued())
				}
			}
		})
	}
	if w.next["orders"] < 100 {
		t.Error("no engine was tested")
	}
}

// timestamps asks for more than one timestamp at once.
func (w *witness) timestamps(t *testing.T, d *Daemon, address string) {
	for request, n := range map[string]uint64{
		"incr tx 10\r\n": 10, "incr tx 4096\r\n": 4096, array("INCR", "tx"): 1, array("INCRBY", "tx", "7"): 7,
	} {
		w.row(t, request, "tx", one(t, address, request), n, 1)
	}
	if says := one(t, address, "incr tx 4097\r\n"); !strings.Contains(says, "4096") {
		t.Errorf("more than a tick has: %q", says)
	}
	c := dial(t, address)
	r := bufio.NewReader(c)
	fmt.Fprint(c, "ids 5 tx\r\n")
	for n := uint64(0); ; {
		line, err := r.ReadString('\n')
		words := strings.Fields(line)
		if err != nil || n >= 5 {
			if n != 5 || line != "END\r\n" {
				t.Fatalf("%d ids end with %q, %v", n, line, err)
			}
			break
		}
		count, _ := strconv.ParseUint(words[len(words)-1], 10, 64)
		first, _ := strconv.ParseUint(words[1], 10, 64)
		w.row(t, "ids", "tx", strconv.FormatUint(first+count-1, 10), count, 1)
		n += count
	}
	clients, err := client.New(client.Static(address), client.Config{Timeout: patience, DialTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer clients.Close()
	first, err := clients.Generator("tx").ID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	many, err := clients.Generator("tx").IDs(t.Context(), 20)
	if err != nil || len(many) != 20 {
		t.Fatal(many, err)
	}
	for _, v := range append([]uint64{first}, many...) {
		w.row(t, "Go client", "tx", strconv.FormatUint(v, 10), 1, 1)
	}
	says := d.texts("generators")
	if hi, err := strconv.ParseUint(says["tx:hi"], 10, 64); err != nil || hi < w.last ||
		says["tx:last"] != strconv.FormatUint(w.last, 10) || says["tx:distance_ms"] == "" {
		t.Errorf("last is %d, and statistics say %q", w.last, says)
	}
}

// array is a command of Redis.
func array(words ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, word := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
	}
	return text
}

// redisValues sends an MGET.
func redisValues(t *testing.T, c net.Conn, keys []string) (texts []string) {
	t.Helper()
	io.WriteString(c, array(append([]string{"MGET"}, keys...)...))
	r := bufio.NewReader(c)
	for i := range 2*len(keys) + 1 {
		line, err := r.ReadString('\n')
		if err != nil || i == 0 && line != fmt.Sprintf("*%d\r\n", len(keys)) {
			t.Fatalf("%q, %v", line, err)
		}
		if i > 0 && i%2 == 0 {
			texts = append(texts, strings.TrimSpace(line))
		}
	}
	return texts
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
