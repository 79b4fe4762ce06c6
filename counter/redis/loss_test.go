package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// fakeServer lets scripts see the clock that is their last argument, and, as the argument before says, the
// same history everywhere.
const fakeServer = `
local redis = (function(real)
  local now, same = tonumber(table.remove(ARGV)), table.remove(ARGV) == 'same'
  local function call(command, ...)
    if command == 'TIME' then return {string.format('%.0f', math.floor(now / 1000)), string.format('%.0f', now % 1000 * 1000)} end
    local reply = real.call(command, ...)
    if command == 'INFO' and same then reply = reply:gsub('run_id:%x+', 'run_id:0'):gsub('master_replid:%x+', 'master_replid:0') end
    return reply
  end
  return setmetatable({call = call}, {__index = real})
end)(redis)
`

// A pair is two servers, of which one follows the other through a proxy, and whose clocks only the test
// moves.
type pair struct {
	*testing.T
	servers [2]*redistest.Server
	proxies [2]*redistest.Proxy // in front of the server with that number, for the other one
	master  int
	now     int64
	ahead   [2]int64 // of the servers' clocks, ms
	history string   // same: no script notices a loss
	stores  map[string]*Store
	blocks  []counter.Block
	twice   int

	forgetful bool // after each fail-over, other daemons go on, which remember nothing
}

func newPair(t *testing.T) *pair {
	p := &pair{T: t, now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli(), ahead: [2]int64{2000, -2000},
		stores: map[string]*Store{}}
	for i := range p.servers {
		p.servers[i] = redistest.Start(t)
		p.proxies[i] = redistest.NewProxy(t, p.servers[i].Addr())
	}
	p.follow()
	return p
}

func (p *pair) old() *redistest.Server { return p.servers[1-p.master] }

// follow makes the server that is not master a replica, and waits until it has everything.
func (p *pair) follow() {
	p.Helper()
	proxy := p.proxies[p.master]
	proxy.Cut()
	proxy.Answers(redistest.Pass)
	host, port, _ := net.SplitHostPort(proxy.Addr())
	p.old().Do("REPLICAOF", host, port)
	p.old().Until("the replica is in sync", func() bool { return p.old().Info("master_link_status") == "up" })
	p.old().CatchUp(p.servers[p.master])
	online := fmt.Sprintf("port=%d,state=online", p.old().Port)
	p.servers[p.master].Until("the master lists it", func() bool {
		return strings.Contains(p.servers[p.master].Info("slave0"), online)
	})
}

// promote makes the replica the master. The old one does not know.
func (p *pair) promote() {
	p.old().Promote()
	p.master = 1 - p.master
	if p.forgetful {
		clear(p.stores)
	}
}

// store is a daemon's store that talks to one of the servers.
func (p *pair) store(server int, query string) *Store {
	p.Helper()
	key := fmt.Sprint(server, query)
	if s := p.stores[key]; s != nil {
		return s
	}
	s := open(p, Config{URL: "redis://" + p.servers[server].Addr() + "/0?ns=" + redistest.Namespace(p) + query,
		Operator: true, now: func() int64 {
			return p.now
		}})
	s.prepare = func(script string, args []string) (string, []string) {
		return fakeServer + script,
			append(append([]string(nil), args...), p.history, strconv.FormatInt(p.now+p.ahead[server], 10))
	}
	p.stores[key] = s
	return s
}

func (p *pair) define(query string) {
	p.Helper()
	d := counter.Sequence("orders")
	d.Rate = 100
	redistest.Until(p, "the definition is safe", func() bool {
		_, err := p.store(p.master, query).Define(bg, d)
		return err == nil
	})
}

var bg = context.Background()

// reserve takes a block, and compares it with all others. It reports whether there was one.
func (p *pair) reserve(server int, query string, n uint64) error {
	p.Helper()
	b, err := p.store(server, query).Reserve(bg, "orders", n)
	for range 2 {
		if err == nil || errors.Is(err, line.ErrCeiling) || errors.Is(err, ErrUnconfirmed) ||
			errors.Is(err, counter.ErrForeign) {
			break
		}
		b, err = p.store(server, query).Reserve(bg, "orders", n) // a server that was promoted closes connections
	}
	if err != nil {
		return err
	}
	for _, o := range p.blocks {
		if b.Lo <= o.Hi && o.Lo <= b.Hi {
			p.twice++
		}
	}
	p.blocks = append(p.blocks, b)
	return nil
}

const rounds = 20

// loseWrites fails over twenty times. Each time the master has granted all that the line allows, and the
// replica has heard of none of it.
func (p *pair) loseWrites() {
	p.Helper()
	for range rounds {
		redistest.Until(p, "there is a block", func() bool { return p.reserve(p.master, "", 10) == nil })
		p.old().CatchUp(p.servers[p.master])
		p.proxies[p.master].Answers(redistest.Hold)
		for p.reserve(p.master, "", 1_000_000) == nil {
		}
		before := p.last()
		p.promote()
		p.follow()
		first := p.reserve(p.master, "", 10) // at the same moment
		p.now += line.Epsilon.Milliseconds() + 4000 + 200
		if err := p.reserve(p.master, "", 10); err != nil {
			p.Fatalf("%v; at once: %v", err, first)
		}
		p.Logf("a fail-over: from %d to %d", before.Hi, p.last().Lo)
		p.now += 60_000
	}
}

// The same test finds duplicates if nobody notices a loss.
func TestFailOversThatLoseWrites(t *testing.T) {
	t.Parallel()
	for _, history := range []string{"", "same"} {
		t.Run("history "+history, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			p.history, p.forgetful = history, true
			p.define("")
			p.loseWrites()
			if (p.twice > 0) != (history == "same") {
				t.Errorf("%d blocks share values with others", p.twice)
			}
			t.Logf("%d blocks in %d fail-overs; the last one ends at %d", len(p.blocks), rounds, p.last().Hi)
		})
	}
}

func (p *pair) last() counter.Block { return p.blocks[len(p.blocks)-1] }

// masterRounds is small because each one waits for replicas that there are not.
func masterRounds() int {
	if os.Getenv("KATSUBUSHI_SOAK") == "1" {
		return 20
	}
	return 4
}

// twoMasters fails over while daemons go on to ask the old master. Every second time the new one has not
// heard of the last writes either.
func (p *pair) twoMasters(query string) (granted int) {
	p.Helper()
	for round := range masterRounds() {
		var before uint64
		if len(p.blocks) > 0 {
			before = p.last().Hi
		}
		redistest.Until(p, "a grant is confirmed", func() bool { return p.reserve(p.master, query, 10) == nil })
		p.Logf("round %d: from %d to %d", round, before, p.last().Lo)
		old := p.master
		if round%2 == 1 {
			p.old().CatchUp(p.servers[p.master])
			p.proxies[p.master].Answers(redistest.Hold)
			if p.reserve(p.master, query, 1_000_000) == nil {
				granted++
			}
		}
		p.promote()
		p.now += 30_000
		p.reserve(p.master, query, 10) // the new one notices the change
		p.now += 30_000
		for _, server := range []int{old, p.master} {
			if p.reserve(server, query, 1_000_000) == nil {
				granted++
			}
		}
		p.follow()
		p.now += 30_000
	}
	return granted
}

func TestTwoMasters(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.define("&replicas=1")
	if n := p.twoMasters("&replicas=1"); n > 0 || p.twice > 0 {
		t.Errorf("%d blocks were granted while there were two masters, and %d share values with others", n, p.twice)
	}
	if len(p.blocks) < masterRounds() {
		t.Errorf("only %d blocks were granted", len(p.blocks))
	}
}

// The same test finds duplicates if grants do not wait for the replica, with the line and without it.
func TestTwoMastersWithoutWAIT(t *testing.T) {
	t.Parallel()
	for _, history := range []string{"", "same"} {
		p := newPair(t)
		p.history, p.forgetful = history, true
		p.define("")
		p.twoMasters("")
		if p.twice == 0 {
			t.Errorf("no duplicates; history: %q", history)
		}
	}
}
