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
	"github.com/katsubushi/katsubushi/v3/id"
)

// marchAndPD are layouts that March's segments allow, and PD's: the node in front, in the middle, behind, absent.
var marchAndPD = []string{
	"node:8,time:41,sequence:14", "time:41,node:8,sequence:14,epoch:1420070400000", "time:41,sequence:14,node:8",
	"time:44,sequence:18", "node:5,time:33,sequence:12,unit:1s", "time:33,node:5,sequence:12,unit:500ms",
}

// An asker asks for timestamps of one name.
type asker struct {
	t      *testing.T
	conn   net.Conn
	r      *bufio.Reader
	name   string
	layout generator.Layout
	last   uint64
}

// ask returns the last of n ids, which were checked: each is at the position above the one before, in a row, and all
// are above those of former calls, of the node, and of now.
func (a *asker) ask(n int) uint64 {
	a.t.Helper()
	fmt.Fprintf(a.conn, "incr %s %d\r\n", a.name, n)
	answer, err := a.r.ReadString('\n')
	last, failed := strconv.ParseUint(strings.TrimSpace(answer), 10, 64)
	if err != nil || failed != nil {
		a.t.Fatalf("%s: %q, %v", a.layout, answer, err)
	}
	first := last - uint64(n-1)*a.layout.StrideOf()
	for _, v := range []uint64{first, last} {
		p := a.layout.Decompose(v)
		if away := time.Since(p.Time).Abs(); v <= a.last || p.Worker != 3&a.layout.MaxWorker() || away > patience {
			a.t.Fatalf("%s: %d after %d, of node %d, %v from now", a.layout, v, a.last, p.Worker, away)
		}
	}
	if a.layout.PositionOf(first)+uint64(n-1) != a.layout.PositionOf(last) {
		a.t.Fatalf("%s: %d ids up to %d are not in a row", a.layout, n, last)
	}
	a.last = last
	return last
}

// layoutLine returns the definition of a name with that layout, and the layout.
func layoutLine(t *testing.T, name, text string) (line string, l generator.Layout) {
	t.Helper()
	l, err := generator.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	line = fmt.Sprintf("%s snowflake layout=%s order=strict", name, text)
	if l.WorkerBits > 0 {
		line += " node=3"
	}
	return line, l
}

// Every layout that a name of timestamps may have: all named ones, and segments. So many ids are in a row as fit into
// a tick, or into the run-ahead where the node is not between time and sequence.
func TestTimestampsOfEveryLayout(t *testing.T) {
	texts := marchAndPD
	for _, l := range generator.Layouts() {
		texts = append(texts, l.Name)
	}
	var lines []string
	var all []*asker
	for i, text := range texts {
		line, l := layoutLine(t, fmt.Sprint("tx", i), text)
		lines, all = append(lines, line), append(all, &asker{t: t, name: fmt.Sprint("tx", i), layout: l})
	}
	_, address := run(t, func(c *Config) {
		c.MaxWait, c.Counters.Dir, c.AnyDisk = patience, t.TempDir(), true
		c.Definitions = strings.Join(lines, ";")
	})
	for _, a := range all {
		a.conn = dial(t, address)
		a.r = bufio.NewReader(a.conn)
		most := 1 << a.layout.SequenceBits
		if l := a.layout; l.WorkerLow || l.WorkerHigh || l.WorkerBits == 0 { // the ticks of the run-ahead
			most = min(most*int(max(1, 1000/l.Unit)), id.MaxReserve)
		}
		for _, n := range []int{1, 2, most, 1} {
			a.ask(n)
		}
		if most == id.MaxReserve { // more is no command
			continue
		}
		fmt.Fprintf(a.conn, "incr %s %d\r\n", a.name, most+1)
		if says, err := a.r.ReadString('\n'); err != nil || !strings.Contains(says, strconv.Itoa(most)) {
			t.Errorf("%s: %d in a row: %q, %v", a.layout, most+1, says, err)
		}
	}
}

// A fleet comes from March or from PD: its ids go on above the last one of those, even if that is ahead of the clock,
// and none comes twice: before a client has asked this daemon, and afterwards, when it has a block.
func TestTimestampsGoOnAboveThoseOfOthers(t *testing.T) {
	for _, text := range marchAndPD {
		t.Run(text, func(t *testing.T) {
			line, l := layoutLine(t, "tx", text)
			d, address := run(t, func(c *Config) {
				c.MaxWait, c.Counters.Dir, c.AnyDisk, c.Definitions = patience, t.TempDir(), true, line
			})
			a := &asker{t: t, conn: dial(t, address), name: "tx", layout: l}
			a.r = bufio.NewReader(a.conn)
			for i, ahead := range []int64{20_000, 30_000} {
				// As March or PD made it: the parts behind each other, of a clock that is ahead.
				tick := uint64((time.Now().UnixMilli() + ahead - l.Epoch) / l.Unit)
				sequence := uint64(4 + i)
				last := tick<<l.SequenceBits | sequence
				switch {
				case l.WorkerHigh:
					last |= 3 << (l.TimeBits + l.SequenceBits)
				case l.WorkerLow:
					last = last<<l.WorkerBits | 3
				case l.WorkerBits > 0:
					last = (tick<<l.WorkerBits|3)<<l.SequenceBits | sequence
				}
				status, answer := d.administer(t, fmt.Sprintf("POST /generators/tx/raise?at_least=%d", last+1))
				if status != 200 {
					t.Fatal(status, answer)
				}
				a.last = last
				for range 50 {
					a.ask(10)
				}
			}
		})
	}
}
