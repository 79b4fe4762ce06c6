package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// reachStore are the settings that every verb of lease reads.
var reachStore = []string{"store", "redis", "store-password-file", "store-ca", "store-cert", "store-key",
	"redis-password-file", "config"}

// leaseVerbs lists the settings that each verb reads. The others are accepted, so that an operator may repeat a
// daemon's command line.
func leaseVerbs() []verb {
	makes := slices.Concat(reachStore, []string{"min-worker-id", "max-worker-id", "lease", "max-skew"},
		flagsOfTopic(topicLayout))
	judges := append([]string{"max-skew"}, reachStore...)
	return []verb{
		{synopsis: "init [-how wait|new|replace|repair|migrated]   make the pool that -min-worker-id, -max-worker-id, " +
			"-lease and the layout describe", settings: makes, run: inPool(leaseInit),
			text: `
  wait      daemons may have used a pool of this name: its worker ids are free one lease later
  new       no daemon ever used it, or all have given their leases back
  replace   change the settings; all daemons have stopped. Its worker ids are free one lease later
  repair    restore missing records of worker ids, in ZooKeeper or etcd: these are free one lease later
  migrated  the last yaraus client has left a pool in Redis`},
		{synopsis: "list [-all]", settings: reachStore, reads: true, run: inPool(leaseList),
			text: "which daemon has which worker id, and until when; -all: also those that no daemon has"},
		{synopsis: "stats", settings: reachStore, reads: true, run: inPool(leaseCounts), text: "counts, by yaraus's names"},
		{synopsis: "release ID", settings: reachStore, least: 1, most: 1, run: inPool(leaseRelease),
			text: "take a worker id from its owner, which gets another one; it is free when the owner's window ends"},
		{synopsis: "replicas [N]", settings: reachStore, most: 1, run: inPool(leaseReplicas),
			text: "how many replicas of Redis must have a lease before it counts; -1: as each daemon's flag says"},
		{synopsis: "restored", settings: judges, run: inPool(leaseRestored),
			text: "after a restore of ZooKeeper or etcd: record it before you let daemons in"},
		{synopsis: "reset-clock", settings: judges, run: inPool(leaseResetClock),
			text: "accept Redis's clock after it was set back; in ZooKeeper and etcd, lower a floor that a wrong clock left"},
	}
}

// hows are what -how may be.
var hows = []string{string(workerid.InitWait), string(workerid.InitNew), string(workerid.InitReplace),
	string(workerid.InitRepair), string(workerid.InitMigrated)}

// leaseTimeout limits a command. init -how new listens for three heartbeats first.
const leaseTimeout = 30 * time.Second

// work is what a verb does in a pool.
type work func(context.Context, workerid.Admin) (any, error)

// inPool makes a verb of what returns its work, and notes what is wrong with its words.
func inPool(prepare func(*call) work) func(*call) int {
	return func(c *call) int { return c.carryOut(prepare(c)) }
}

// carryOut does the work if all settings are right.
func (c *call) carryOut(do work) int {
	config := c.Store
	config.Layout, config.Log = c.Layout.Fingerprint(), logger(c.stderr, c.options)
	c.leaseProblems(config)
	if c.given["worker-id"] == "-worker-id" { // who writes it takes it for a pool of one
		c.problem("-worker-id: a pool has those from -min-worker-id to -max-worker-id; `lease release` takes one " +
			"without a flag")
	}
	if c.refused() {
		return exitUsage
	}
	c.warn(c.stderr)
	// init -how new takes a while: if the wall clock is wrong for a shorter time, it will disagree
	// with the store's
	config.Now = clock.New().Now
	pool, err := stores.OpenAdmin(config)
	if err != nil {
		fmt.Fprintln(c.stderr, err)
		return exitUsage
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout+3*workerid.HeartbeatOf(config.Lease))
	defer cancel()
	result, err := do(ctx, pool)
	if err != nil {
		return c.fail(err)
	}
	if !c.verb.reads {
		recorded(c.stderr, endpoint.Safe(config.URL))
	}
	if c.json {
		json.NewEncoder(c.stdout).Encode(result)
		return exitOK
	}
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	printLease(table, result)
	table.Flush()
	return exitOK
}

func leaseInit(c *call) work {
	if !slices.Contains(hows, c.how) {
		c.problem("-how=%s: %s", c.how, problem.Allowed(hows...))
	}
	return func(ctx context.Context, pool workerid.Admin) (any, error) {
		result, err := pool.Init(ctx, workerid.How(c.how))
		return initialised{result}, err
	}
}

func leaseList(c *call) work {
	return func(ctx context.Context, pool workerid.Admin) (any, error) {
		list, err := pool.List(ctx)
		return inUse(list, c.all), err
	}
}

func leaseCounts(c *call) work {
	return only(c, "keeps no such counts; `lease list` shows its worker ids",
		func(ctx context.Context, pool workerid.StatsAdmin) (any, error) { return pool.Stats(ctx) })
}

func leaseRelease(c *call) work {
	id := c.number(0, "one worker id")
	return func(ctx context.Context, pool workerid.Admin) (any, error) { return pool.Release(ctx, uint64(id)) }
}

func leaseReplicas(c *call) work {
	n := c.number(-1, "a number of replicas, or -1,")
	c.verb.reads = len(c.words) == 0
	return only(c, "has no replicas to wait for: a majority of its servers has what it acknowledged",
		func(ctx context.Context, pool workerid.ReplicasAdmin) (any, error) {
			if !c.verb.reads {
				if err := pool.SetReplicas(ctx, n); err != nil {
					return nil, err
				}
			}
			return pool.Replicas(ctx)
		})
}

func leaseRestored(c *call) work {
	return only(c, "need not be told: daemons notice if it was started with older data, and wait. If old keys "+
		"were put back while it ran, restart it",
		func(ctx context.Context, pool workerid.RestoredAdmin) (any, error) { return pool.Restored(ctx) })
}

func leaseResetClock(c *call) work {
	return only(c, "has no clock of its own",
		func(ctx context.Context, pool workerid.ClockAdmin) (any, error) { return pool.ResetClock(ctx) })
}

// number returns the number that follows the verb, if one word does.
func (c *call) number(least int, what string) int {
	if len(c.words) != 1 {
		return 0
	}
	n, err := strconv.Atoi(c.words[0])
	if err != nil || n < least {
		c.problem("lease %s: %s is needed, not %q", c.verb.called(), what, c.words[0])
	}
	return n
}

// only makes a verb that only stores of type T support. Of the others, without says why not.
func only[T any](c *call, without string, do func(context.Context, T) (any, error)) work {
	return func(ctx context.Context, pool workerid.Admin) (any, error) {
		if able, ok := pool.(T); ok {
			return do(ctx, able)
		}
		return nil, fmt.Errorf("lease %s: %s %s", c.verb.called(), c.Store.Kind(), without)
	}
}
