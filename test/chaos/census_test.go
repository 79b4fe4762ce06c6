//go:build chaos && linux

package chaos

import (
	"fmt"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/unique"
)

const maxTold = 20 // answers with duplicates of which the story is told

// A census takes in all ids that anybody got.
type census struct {
	mu     sync.Mutex
	ids    unique.Set
	last   uint64
	reigns map[uint64][]reign // of each worker id, in the order in which their ids came
	twice  []string           // the story of the first few answers with duplicates
}

// A reign is a stretch of ids of one worker id from one process: who had it, which is what a
// duplicate's reader wants to know.
type reign struct {
	process     string
	first, last time.Time // of the ids
}

func (c *census) add(process string, began time.Time, ids []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := len(c.twice)
	for _, id := range ids {
		p := generator.Katsubushi().Decompose(id)
		if !c.ids.Add(id) && len(c.twice) == told && told < maxTold {
			c.twice = append(c.twice, fmt.Sprintf("%d, of worker id %d at %s, came again from %s after %.3f s%s",
				id, p.Worker, p.Time.UTC().Format("15:04:05.000"), process, time.Since(began).Seconds(), c.who(p.Worker, p.Time)))
		}
		c.last = id
		c.reign(p.Worker, process, p.Time)
	}
}

func (c *census) repeated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids.Duplicates() > 0
}

func (c *census) reign(worker uint64, process string, at time.Time) {
	if c.reigns == nil {
		c.reigns = map[uint64][]reign{}
	}
	all := c.reigns[worker]
	if n := len(all) - 1; n >= 0 && all[n].process == process {
		all[n].last = at
	} else {
		c.reigns[worker] = append(all, reign{process, at, at})
	}
}

// who had a worker id at a time.
func (c *census) who(worker uint64, at time.Time) (had string) {
	for _, r := range c.reigns[worker] {
		if !at.Before(r.first) && !at.After(r.last) {
			had += fmt.Sprintf("; %s had it from %s to %s", r.process, r.first.UTC().Format("15:04:05.000"),
				r.last.UTC().Format("15:04:05.000"))
		}
	}
	return had
}

// plant lets one id come twice, and is an error if nobody notices. The census is over then.
func (c *census) plant(began time.Time) (story string, err error) {
	if err := c.ids.Plant(); err != nil {
		return "", err
	}
	before := c.ids.Duplicates()
	c.twice = nil
	c.add("the test itself", began, []uint64{c.last})
	if c.ids.Duplicates() != before+1 {
		return "", fmt.Errorf("id %d was planted and not noticed", c.last)
	}
	return c.twice[0], nil
}
