package daemon

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
)

// TestGreedyClientsTakeNothingFromAPoliteOne: eight connections request as many ids as the layout
// has, in lines of a hundred keys, without waiting for the answers. A client that asks for one id
// at a time still gets every id. The layout is small enough to be exhausted even on a busy machine.
func TestGreedyClientsTakeNothingFromAPoliteOne(t *testing.T) {
	small := generator.Katsubushi()
	small.SequenceBits, small.WorkerBits = 7, 15
	for _, engine := range enginesHere() {
		t.Run(engine, func(t *testing.T) {
			d, address := run(t, func(c *Config) {
				c.Layout, c.MaxRunAhead, c.Engine, c.Loops = small, 50*time.Millisecond, engine, 2
			})
			var greedy sync.WaitGroup
			var conns []net.Conn
			for range 8 {
				c := dial(t, address)
				conns = append(conns, c)
				greedy.Go(func() {
					many := strings.Repeat("get"+strings.Repeat(" k", 100)+"\r\n", 20)
					for {
						if _, err := io.WriteString(c, many); err != nil {
							return
						}
					}
				})
				greedy.Go(func() { io.Copy(io.Discard, c) })
			}
			defer greedy.Wait()
			defer func() {
				for _, c := range conns {
					c.Close()
				}
			}()
			// They wait for each tick, and all ids for which there is time now are theirs.
			for deadline := time.Now().Add(patience); d.windows.Issuer.Position() < d.windows.Clock.Now()+40; {
				if time.Now().After(deadline) {
					t.Fatal("the greedy clients have not used up the run-ahead")
				}
				time.Sleep(time.Millisecond)
			}
			polite := dial(t, address)
			r := bufio.NewReader(polite)
			for i := range 2000 {
				polite.SetDeadline(time.Now().Add(patience))
				io.WriteString(polite, "get id\r\n")
				for line := ""; line != "END\r\n"; {
					var err error
					if line, err = r.ReadString('\n'); err != nil || strings.HasPrefix(line, "SERVER_ERROR") {
						t.Fatalf("request %d: %q, %v", i, line, err)
					}
				}
			}
		})
	}
}
