package daemon

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// Ids of three layouts come from one worker id. A daemon that was stopped goes on above all of them,
// though only the word of its own layout is recorded.
func TestNamesWithLayoutsOfTheirOwn(t *testing.T) {
	state, seen := t.TempDir(), map[string]bool{}
	layouts := map[string]generator.Layout{"id": generator.Katsubushi(), "a": generator.Instagram(),
		"b": generator.Instagram(), "c": generator.Sonyflake()}
	keys := strings.Fields("a c id b a c b id")
	for range 3 {
		t.Run("run", func(t *testing.T) {
			_, address := run(t, func(c *Config) {
				c.Definitions, c.StateDir, c.AnyDisk,
					c.MaxRunAhead = "a snowflake layout=instagram; b snowflake layout=instagram; c snowflake layout=sonyflake", state,
					true, time.Second
				c.WorkerIDs = []uint64{5}
			})
			checkLayouts(t, dial(t, address), keys, layouts, seen)
		})
	}
}

func checkLayouts(t *testing.T, c net.Conn, keys []string, layouts map[string]generator.Layout, seen map[string]bool) {
	t.Helper()
	r := bufio.NewReader(c)
	for got := 0; got < 300; got++ {
		before := time.Now()
		fmt.Fprintf(c, "get %s\r\n", strings.Join(keys, " "))
		// After the very first start the window lies ahead: until the clock comes nearer, there is
		// one tick of sonyflake at a time.
		if head, _ := r.Peek(6); string(head) == "SERVER" {
			r.ReadString('\n')
			time.Sleep(10 * time.Millisecond)
			got--
			continue
		}
		for i, text := range values(t, r, keys, false) {
			l := layouts[keys[i]]
			v, err := strconv.ParseUint(text, 10, 64)
			p := l.Decompose(v)
			if off := p.Time.Sub(before); err != nil || p.Worker != 5 || off < -2*time.Second || off > patience {
				t.Fatalf("%s: %s: %+v, %v, asked at %v", keys[i], text, p, err, before)
			}
			if seen[l.Name+text] {
				t.Fatalf("%s of %s twice", text, l)
			}
			seen[l.Name+text] = true
		}
	}
}
