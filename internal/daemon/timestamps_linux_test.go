package daemon

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A clockwork checks timestamps one by one: each is above all before, of node 1000, and of now.
type clockwork struct {
	last uint64
	got  map[string]int // by what asked
}

func (c *clockwork) check(t *testing.T, how string, want int, texts ...string) {
	t.Helper()
	if len(texts) != want {
		t.Fatalf("%s: %q, want %d ids", how, texts, want)
	}
	for _, text := range texts {
		v, err := strconv.ParseUint(text, 10, 64)
		parts := generator.Katsubushi().Decompose(v)
		if away := time.Since(parts.Time).Abs(); err != nil || v <= c.last || parts.Worker != 1000 || away > patience {
			t.Fatalf("%s: %q after %d: node %d, %v from now, %v", how, text, c.last, parts.Worker, away, err)
		}
		c.last = v
		c.got[how]++
	}
}

// inRow checks n ids of which the answer is the last.
func (c *clockwork) inRow(t *testing.T, how, answer string, n int) {
	t.Helper()
	last, err := strconv.ParseUint(strings.TrimLeft(strings.TrimSpace(answer), ":"), 10, 64)
	if err != nil {
		t.Fatalf("%s: %q", how, answer)
	}
	for i := range n {
		c.check(t, how, 1, strconv.FormatUint(last-uint64(n-1-i), 10))
	}
}

// Timestamps over every engine, port and verb, and what operators see of them.
func TestTimestampsOverEveryPort(t *testing.T) {
	c := &clockwork{got: map[string]int{}}
	dir := t.TempDir()
	for _, engine := range enginesHere() {
		t.Run(engine, func(t *testing.T) {
			udp := redistest.FreePort(t)
			d, address := run(t, func(c *Config) {
				c.Engine, c.HTTPPort, c.UDPPort, c.MaxWait = engine, redistest.FreePort(t), udp, patience
				c.Counters.Dir, c.AnyDisk = dir, true
				c.Definitions = "tx snowflake layout=katsubushi order=strict node=1000"
			})
			conn := dial(t, address)
			r := bufio.NewReader(conn)
			line := func(format string, args ...any) string {
				t.Helper()
				fmt.Fprintf(conn, format, args...)
				text, err := r.ReadString('\n')
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			three := []string{"tx", "tx", "tx"}
			for _, verb := range []string{"get", "gets", "gat 0", "gats 0"} {
				fmt.Fprintf(conn, "%s tx tx tx\r\n", verb)
				c.check(t, verb, 3, values(t, r, three, strings.HasPrefix(verb, "gets") || verb == "gats 0")...)
			}
			fmt.Fprint(conn, "mg tx k s c f v\r\n")
			c.check(t, "mg", 1, metaValue(t, r, "tx"))
			c.inRow(t, "incr", line("incr tx 10\r\n"), 10)
			if says := line("incr tx 4097\r\n"); !strings.Contains(says, "4096") {
				t.Errorf("more than a tick has: %q", says)
			}
			c.inRow(t, "incr of a whole tick", line("incr tx 4096\r\n"), 4096)
			words := strings.Fields(line("ids 5 tx\r\n"))
			for n := 0; n < 5 && words[0] == "IDS"; words = strings.Fields(line("")) {
				count, _ := strconv.Atoi(words[len(words)-1])
				first, _ := strconv.ParseUint(words[1], 10, 64)
				for i := range count {
					c.check(t, "ids", 1, strconv.FormatUint(first+uint64(i), 10))
				}
				n += count
			}
			if words[0] != "END" {
				t.Fatalf("ids end with %q", words)
			}
			c.check(t, "GETK", 3, binaryValues(t, dial(t, address), three)...)
			c.check(t, "UDP", 3, datagramValues(t, udp, three)...)
			c.check(t, "HTTP", 3, overHTTP(t, d, three)...)
			conn = dial(t, address)
			r = bufio.NewReader(conn)
			for _, verb := range []string{"GET tx", "INCR tx", "INCRBY tx 7", "MGET tx tx"} {
				words := strings.Fields(verb)
				request := fmt.Sprintf("*%d\r\n", len(words))
				for _, word := range words {
					request += fmt.Sprintf("$%d\r\n%s\r\n", len(word), word)
				}
				answer := line("%s", request)
				switch {
				case answer[0] == '$':
					c.check(t, verb, 1, strings.TrimSpace(line("")))
				case answer == "*2\r\n":
					line("")
					first := line("")
					line("")
					c.check(t, verb, 2, strings.TrimSpace(first), strings.TrimSpace(line("")))
				default:
					c.inRow(t, verb, answer, map[string]int{"INCR tx": 1, "INCRBY tx 7": 7}[verb])
				}
			}
			clients, err := client.New(client.Static(address), client.Config{Timeout: patience, DialTimeout: patience})
			if err != nil {
				t.Fatal(err)
			}
			defer clients.Close()
			one, err := clients.Generator("tx").ID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c.check(t, "Go client", 1, strconv.FormatUint(one, 10))
			many, err := clients.Generator("tx").IDs(t.Context(), 20)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range many {
				c.check(t, "Go client, many", 1, strconv.FormatUint(v, 10))
			}
			says := d.texts("generators")
			if hi, err := strconv.ParseUint(says["tx:hi"], 10, 64); err != nil || hi < c.last ||
				says["tx:last"] != strconv.FormatUint(c.last, 10) || says["tx:distance_ms"] == "" {
				t.Errorf("last is %d, and statistics say %q", c.last, says)
			}
		})
	}
	if len(c.got) < 14 {
		t.Errorf("only %v", c.got)
	}
}
