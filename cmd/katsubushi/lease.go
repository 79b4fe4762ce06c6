package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

const leaseUsage = `usage: katsubushi lease VERB -store URL [-json] [the daemons' flags]
  init [-how wait|new|replace|repair|migrated]   make the pool that -min-worker-id, -max-worker-id, -lease and the layout describe
                                            wait      somebody may have used one of this name: worker ids come one lease later
                                            new       nobody ever did, or all who did have given their leases back
                                            replace   other settings; all daemons have stopped. Its worker ids come one lease later
                                            repair    records of worker ids are missing, in ZooKeeper or etcd: they come one lease later
                                            migrated  the last yaraus client has left a pool in Redis
  list [-all]                             who has which worker id, and until when; -all: also those that nobody has
  stats                                   counts, by yaraus's names
  release ID                              take a worker id from its owner, who gets another one; it can be had when the owner's window is over
  replicas [N]                            how many replicas of Redis must have a lease before it counts; -1: what each daemon's flag says
  restored                                an earlier state of ZooKeeper or etcd was restored: say so before daemons are let in
  reset-clock                             accept Redis's clock after it was set back; in ZooKeeper and etcd, forget what a wrong clock has left behind`

// leaseTimeout limits a command. init -how new listens for three heartbeats first.
const leaseTimeout = 30 * time.Second

// lease is the operator's command for a pool of worker ids.
func lease(args []string, env variables, stdout, stderr io.Writer) int {
	var verb string
	var o leaseOptions
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		verb, args = args[0], args[1:]
	}
	args = numberLast(args)
	p, fs, err := parse(settings(), args, env, func(fs *flag.FlagSet) {
		fs.BoolVar(&o.json, "json", false, "print JSON")
		fs.BoolVar(&o.all, "all", false, "also list the worker ids that nobody has")
		fs.StringVar(&o.how, "how", string(workerid.InitWait),
			"what is known of the `past` of the pool: wait, new, replace, repair or migrated")
	})
	if errors.Is(err, flag.ErrHelp) {
		leaseHelp(verb, fs, stdout)
		return exitOK
	}
	p.warn(stderr)
	p.problems = append(p.problems, foreignToVerb(verb, fs)...)
	config := p.Store
	config.Layout, config.Log = p.Layout.Fingerprint(), logger(stderr, p.options)
	p.leaseProblems(config)
	carryOut, err := p.leaseVerb(verb, o)
	if err := errors.Join(append(p.problems, err)...); err != nil {
		fmt.Fprintf(stderr, "%v\n%s\n", err, leaseUsage)
		return exitUsage
	}
	// init -how new takes a while: if the wall clock is wrong for a shorter time, it will disagree
	// with the store's
	config.Now = clock.New().Now
	pool, err := stores.OpenAdmin(config)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), leaseTimeout+3*workerid.HeartbeatOf(config.Lease))
	defer cancel()
	result, err := carryOut(ctx, pool)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailure
	}
	if !slices.Contains([]string{"list", "stats"}, verb) && (verb != "replicas" || len(p.args) > 0) {
		recorded(stderr, endpoint.Safe(config.URL))
	}
	if o.json {
		json.NewEncoder(stdout).Encode(result)
		return exitOK
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	printLease(table, result)
	table.Flush()
	return exitOK
}

// numberLast lets a verb's number stand before or after the flags, and does not take -1 for a flag. All
// words before the flags move, so that the flags are read and the words alone are what is wrong.
func numberLast(args []string) []string {
	words := slices.IndexFunc(args, func(a string) bool {
		_, err := strconv.Atoi(a)
		return err != nil && strings.HasPrefix(a, "-")
	})
	if words > 0 {
		return slices.Concat(args[words:], []string{"--"}, args[:words])
	}
	if last := len(args) - 1; words == 0 && args[last] == "-1" {
		return slices.Concat(args[:last], []string{"--", "-1"})
	}
	return args
}

// leaseVerb checks the words of the command and returns what is to be done.
func (p *parsed) leaseVerb(verb string, o leaseOptions) (func(context.Context, workerid.Admin) (any, error), error) {
	n, numberErr := 0, errors.New("a number is needed")
	if len(p.args) == 1 {
		n, numberErr = strconv.Atoi(p.args[0])
	}
	switch {
	case verb == "init" && len(p.args) == 0:
		switch h := workerid.How(o.how); h {
		case workerid.InitWait, workerid.InitNew, workerid.InitReplace, workerid.InitRepair, workerid.InitMigrated:
			return func(ctx context.Context, pool workerid.Admin) (any, error) {
				result, err := pool.Init(ctx, h)
				return initialised{result}, err
			}, nil
		}
		return nil, fmt.Errorf("-how=%s: wait, new, replace, repair or migrated allowed", o.how)
	case verb == "list" && len(p.args) == 0:
		return func(ctx context.Context, pool workerid.Admin) (any, error) {
			list, err := pool.List(ctx)
			return inUse(list, o.all), err
		}, nil
	case verb == "stats" && len(p.args) == 0:
		return only(p, verb, "keeps no such counts; `lease list` shows its worker ids",
			func(ctx context.Context, pool workerid.StatsAdmin) (any, error) { return pool.Stats(ctx) }), nil
	case verb == "release" && (numberErr != nil || n < 0):
		return nil, errors.New("lease release: one worker id is needed")
	case verb == "release":
		return func(ctx context.Context, pool workerid.Admin) (any, error) { return pool.Release(ctx, uint64(n)) }, nil
	case verb == "replicas" && len(p.args) == 0:
		return only(p, verb, noReplicas, func(ctx context.Context, pool workerid.ReplicasAdmin) (any, error) {
			return pool.Replicas(ctx)
		}), nil
	case verb == "replicas" && (numberErr != nil || n < -1):
		return nil, errors.New("lease replicas: a number of replicas, or -1, is needed")
	case verb == "replicas":
		return only(p, verb, noReplicas, func(ctx context.Context, pool workerid.ReplicasAdmin) (any, error) {
			if err := pool.SetReplicas(ctx, n); err != nil {
				return nil, err
			}
			return pool.Replicas(ctx)
		}), nil
	case verb == "reset-clock" && len(p.args) == 0:
		return only(p, verb, "has no clock of its own", func(ctx context.Context, pool workerid.ClockAdmin) (any, error) {
			return pool.ResetClock(ctx)
		}), nil
	case verb == "restored" && len(p.args) == 0:
		return only(p, verb, "need not be told: daemons notice if it was started with older data, and wait. If old keys "+
			"were put back while it ran, restart it",
			func(ctx context.Context, pool workerid.RestoredAdmin) (any, error) { return pool.Restored(ctx) }), nil
	case verb == "":
		return nil, errors.New("lease: the verb comes first: " + spoken(leaseVerbs) + " are there")
	case len(p.args) > 0:
		return nil, fmt.Errorf("lease %s: what is %q?", verb, p.args[0])
	}
	return nil, fmt.Errorf("lease %s: %s are there", verb, spoken(leaseVerbs))
}

var leaseVerbs = []string{"init", "list", "stats", "release", "replicas", "restored", "reset-clock"}

const (
	noReplicas = "has no replicas to wait for: a majority of its servers has what it acknowledged"
)

// only makes a verb that only stores of type T support. Of the others, without says why not.
func only[T any](p *parsed, verb, without string, do func(context.Context, T) (any, error)) func(context.Context,
	workerid.Admin) (any, error) {
	return func(ctx context.Context, pool workerid.Admin) (any, error) {
		if able, ok := pool.(T); ok {
			return do(ctx, able)
		}
		return nil, fmt.Errorf("lease %s: %s %s", verb, p.Store.Kind(), without)
	}
}
