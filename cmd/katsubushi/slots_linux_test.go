package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/id"
)

// CLUSTER SLOTS names the daemons that answer: while groups move, each name is asked of the daemon that
// owns its slot, again and again. A moment in which anything changed does not count.
func TestStrictSlots(t *testing.T) {
	t.Parallel()
	names, moments := 64, 8
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		names, moments = 1000, 100
	}
	var definitions, all []string
	for i := range names {
		all = append(all, fmt.Sprint("name", i))
		definitions = append(definitions, all[i]+" sequence batch=100 order=strict")
	}
	f := startFleet(t, 1, 3, "-max-wait", "1m", "-generator", strings.Join(definitions, ";"))
	c := &slotsClient{t: t, conns: map[string]*bufio.ReadWriter{}}
	more, over := make(chan bool, 1), make(chan bool)
	go func() {
		defer close(over)
		for n := 0; <-more; n += 5 {
			for t.Context().Err() == nil && f.demote(strconv.Itoa(n%16)) != "" { // nobody leads the group yet
			}
		}
	}()
	again, seen := 0, map[string]bool{}
	for i := 0; i < moments; time.Sleep(5 * time.Millisecond) {
		before, ok := c.agreed(f)
		if !ok {
			again++
			continue
		}
		wrong := c.askAll(before, all)
		after, ok := c.agreed(f)
		if !ok || !slices.Equal(before, after) {
			again++
			continue
		}
		if len(wrong) > 0 {
			t.Fatalf("all daemons say %v, and yet: %q", before, wrong)
		}
		if s := fmt.Sprint(before); !seen[s] {
			seen[s] = true
			i++
			select {
			case more <- true: // the next group moves while the names are asked again
			default:
			}
		}
	}
	close(more)
	<-over
	t.Logf("%d names in %d moments, no two alike; %d more were asked again", names, moments, again)
}

// slotsClient asks daemons as a client of a Redis cluster does.
type slotsClient struct {
	t     *testing.T
	conns map[string]*bufio.ReadWriter
}

func (c *slotsClient) conn(address string) *bufio.ReadWriter {
	if c.conns[address] == nil {
		conn := dial(c.t, "tcp", address)
		conn.SetDeadline(time.Now().Add(5 * time.Minute))
		c.conns[address] = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	}
	return c.conns[address]
}

// line reads a line of an answer.
func (c *slotsClient) line(b *bufio.ReadWriter) string {
	line, err := b.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimRight(line, "\r\n")
}

// slots returns what a daemon says to CLUSTER SLOTS: "FIRST LAST HOST:PORT" for each range, and the
// number of changes so far.
func (c *slotsClient) slots(address string) (all []string) {
	b := c.conn(address)
	b.WriteString("*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n")
	b.Flush()
	n, _ := strconv.Atoi(c.line(b)[1:])
	for range n {
		var words []string // of *N, first, last, *4, host, port, id, *0
		for len(words) < 10 {
			words = append(words, c.line(b))
		}
		for range (int(words[0][1]-'0') - 3) * 7 { // replicas: *4, host, port, id, *0
			c.line(b)
		}
		all = append(all, words[1][1:]+" "+words[2][1:]+" "+net.JoinHostPort(words[5], words[6][1:]))
	}
	for length, _ := strconv.Atoi(c.line(b)[1:]); length >= 0; {
		line := c.line(b)
		if length -= len(line) + 2; strings.HasPrefix(line, "cluster_current_epoch:") {
			all = append(all, line)
		}
	}
	return all
}

// agreed returns CLUSTER SLOTS if all daemons say the same.
func (c *slotsClient) agreed(f *fleet) (all []string, ok bool) {
	for _, d := range f.daemons {
		said := c.slots(d.address())
		if all != nil && !slices.Equal(all, said) {
			return nil, false
		}
		all = said
	}
	return all, true
}

// askAll asks for a value of each name where its slot is, and returns the answers that are none.
func (c *slotsClient) askAll(slots, names []string) (wrong []string) {
	at := map[string][]string{}
	for _, name := range names {
		for _, s := range slots[:len(slots)-1] {
			var first, last int
			var address string
			fmt.Sscan(s, &first, &last, &address)
			if slot := id.Slot([]byte(name)); slot >= first && slot <= last {
				at[address] = append(at[address], name)
			}
		}
	}
	asked := 0
	for address, here := range at {
		b := c.conn(address)
		for _, name := range here {
			fmt.Fprintf(b, "*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n", len(name), name)
		}
		b.Flush()
		for _, name := range here {
			asked++
			if answer := c.line(b); !strings.HasPrefix(answer, ":") {
				wrong = append(wrong, name+" at "+address+": "+answer)
			}
		}
	}
	if asked != len(names) {
		wrong = append(wrong, fmt.Sprintf("%d of %d names have a slot", asked, len(names)))
	}
	return wrong
}
