package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A counting daemon's values are checked one by one: each continues where the last one ended. On a machine that stands
// still, the answer to a block may come too late: then the block is a gap, and the log says so.
type counting struct {
	next map[string]uint64
	step map[string]uint64
	log  *childprocess.Log
}

// gap says whether a value is the first one after blocks that were lost.
func (c *counting) gap(key, text string) bool {
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil || v < c.next[key] || (v-c.next[key])%c.step[key] > 0 ||
		!strings.Contains(c.log.String(), `msg="a sequence got no block" sequence=`+key+" ") {
		return false
	}
	c.next[key] = v
	return true
}

func (c *counting) check(t *testing.T, how string, keys, texts []string) {
	t.Helper()
	if len(keys) != len(texts) {
		t.Fatalf("%s: %d answers to %d keys", how, len(texts), len(keys))
	}
	for i, key := range keys {
		if c.step[key] == 0 { // of another kind
			continue
		}
		if want := strconv.FormatUint(c.next[key], 10); texts[i] != want && !c.gap(key, texts[i]) {
			t.Fatalf("%s: %s is answered %s, want %s", how, key, texts[i], want)
		}
		c.next[key] += c.step[key]
	}
}

// Sequences over every engine and grammar. One daemon follows another, and no value is missing
// between them.
func TestSequencesContinueAcrossCleanStops(t *testing.T) {
	dir := t.TempDir()
	counts := &counting{next: map[string]uint64{"orders": 1, "evens": 1000},
		step: map[string]uint64{"orders": 1, "evens": 2}, log: new(childprocess.Log)}
	for _, engine := range enginesHere() {
		t.Run(engine, func(t *testing.T) {
			d, address := run(t, func(c *Config) {
				c.Log = slog.New(listening{slog.NewTextHandler(counts.log, nil), c.Log.Handler().(listening).address})
				c.Engine, c.HTTPPort, c.MaxWait = engine, redistest.FreePort(t), patience
				c.Counters.Dir, c.AnyDisk = dir, true
				c.Definitions = "orders sequence; evens sequence start=1000 step=2 offset=2; u7 uuid7"
			})
			conn := dial(t, address)
			r := bufio.NewReader(conn)
			for _, keys := range []string{"orders", "orders id orders evens u7 evens orders", strings.Repeat(" orders", 1000)} {
				list := strings.Fields(keys)
				fmt.Fprintf(conn, "gets %s\r\n", strings.Join(list, " "))
				counts.check(t, "gets", list, values(t, r, list, true))
			}
			fmt.Fprintf(conn, "incr evens 300\r\n")
			line, err := r.ReadString('\n')
			last, bad := strconv.ParseUint(strings.TrimSuffix(line, "\r\n"), 10, 64)
			if err := errors.Join(err, bad); err != nil {
				t.Fatalf("incr is answered %q, %v", line, err)
			}
			counts.check(t, "incr", []string{"evens"}, []string{strconv.FormatUint(last-299*2, 10)})
			counts.next["evens"] = last + 2
			b := dial(t, address)
			list := []string{"evens", "orders", "orders"}
			counts.check(t, "GETK", list, binaryValues(t, b, list))
			counts.check(t, "HTTP", list, overHTTP(t, d, list))
		})
	}
	if counts.next["orders"] < 1000 {
		t.Error("no engine was tested")
	}
}

// A directory that nobody has named must not stop a daemon that needs none. Where worker ids are recorded in it too, so
// would be sequences that other daemons create.
func TestADefaultDirectoryThatCannotBeUsed(t *testing.T) {
	c := testConfig()
	c.Counters = stores.Counters{Dir: "/proc/version", DirByDefault: true}
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	d.windows.Stop(true)
	d.services.Stop()
	c.StateDir, c.StateDirByDefault, c.AnyDisk, c.RuntimeDir = t.TempDir(), true, true, t.TempDir()
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "/proc/version") {
		t.Error(err)
	}
}
