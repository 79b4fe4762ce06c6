package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// redisSettings are the settings of leasing worker ids from Redis.
func redisSettings() []setting {
	return []setting{
		{name: "redis", bare: true, field: "Redis.URL", set: text(func(o *options) *string { return &o.Redis.URL }),
			help: "lease worker ids from the Redis at this `URL`: redis, rediss, rediscluster, redisclusters or redis+sentinel; ?ns=NAME names the pool, default " + redis.DefaultNamespace},
		{name: "redis-password-file", field: "Redis.PasswordFile", set: text(func(o *options) *string { return &o.Redis.PasswordFile }),
			help: "`file` with the password, instead of one in the URL: readable by its owner only, and read again for every connection"},
		{name: "min-worker-id", bare: true, def: "1", field: "Redis.Min", set: workerID(func(o *options) *uint64 { return &o.Redis.Min }),
			help: "smallest worker `id` to lease"},
		{name: "max-worker-id", bare: true, field: "Redis.Max", set: workerID(func(o *options) *uint64 { return &o.Redis.Max }),
			help: "largest worker `id` to lease; default the layout's largest"},
		{name: "lanes", def: "1", field: "Lanes", set: number(func(o *options) *int { return &o.Lanes }),
			help: "how many worker ids to lease: each has a generator of its own"},
		{name: "lease", def: "1m", field: "Redis.Lease", set: positive(func(o *options) *time.Duration { return &o.Redis.Lease }),
			help: "how far ahead a lease reaches: the longest outage of Redis without an effect; the same for all daemons of a pool"},
		{name: "heartbeat", field: "Heartbeat", set: duration(func(o *options) *time.Duration { return &o.Heartbeat }),
			help: "time between two extensions of a lease; default a twelfth of it, at least 1s; 1s with -hold-raus"},
		{name: "max-skew", def: "2s", field: "Redis.MaxSkew", set: positive(func(o *options) *time.Duration { return &o.Redis.MaxSkew }),
			help: "how much this host's clock and Redis's may differ"},
		{name: "redis-replicas", def: "0", field: "Redis.Replicas", set: number(func(o *options) *int { return &o.Redis.Replicas }),
			help: "how many replicas must have a lease before it counts; see docs/REDIS.md before setting it"},
		{name: "redis-allow-eviction", bool: true, def: "false", field: "Redis.AllowEviction", set: boolean(func(o *options) *bool { return &o.Redis.AllowEviction }),
			help: "accept a Redis whose maxmemory-policy may evict the pool"},
		{name: "hold-raus", field: "Redis.HoldRaus", set: text(func(o *options) *string { return &o.Redis.HoldRaus }),
			help: "also hold the locks of kayac/go-katsubushi's -redis in this `namespace`, raus unless its URL says another: while its daemons use the same worker ids"},
		{name: "lease-auto-init", bool: true, def: "false", field: "Redis.AutoInit", set: boolean(func(o *options) *bool { return &o.Redis.AutoInit }),
			help: "make the pool if there is none; its worker ids come a lease later. Otherwise katsubushi lease init makes it"},
	}
}

func workerID(field func(*options) *uint64) func(*options, string) error {
	return func(o *options, v string) error {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return errors.New("a worker id is allowed")
		}
		*field(o) = n
		return nil
	}
}

// combineRedis settles what -redis means for the other settings. kayac/go-katsubushi's 0 stands for "not set" in three of them.
func (p *parsed) combineRedis() {
	if p.Redis.URL == "" {
		harmless := map[string]bool{"min-worker-id": p.Redis.Min == 0, "max-worker-id": p.Redis.Max == 0} // kayac's defaults
		for _, s := range redisSettings() {
			if name := p.given[s.name]; name != "" && !harmless[s.name] {
				p.problems = append(p.problems, fmt.Errorf("%s: belongs to -redis, which is not given", name))
			}
		}
		return
	}
	if len(p.WorkerIDs) == 1 && p.WorkerIDs[0] == 0 {
		p.WorkerIDs = nil
		p.notes = append(p.notes, "worker id 0 together with -redis means that it is not set: one is leased")
	}
	if name := p.given["state-dir"]; name != "" && name != "STATE_DIRECTORY" && p.StateDir != noStateDir { // which a unit may set for both kinds
		p.notes = append(p.notes, name+" is not used: with -redis the windows are recorded there")
	}
	if p.Redis.Min == 0 {
		p.Redis.Min = 1
		p.notes = append(p.notes, "-min-worker-id 0 means the default, 1")
	}
	if p.Redis.Max == 0 {
		p.Redis.Max = p.Layout.MaxWorker()
		if p.given["max-worker-id"] != "" {
			p.notes = append(p.notes, fmt.Sprintf("-max-worker-id 0 means the default, %d", p.Redis.Max))
		}
	}
}
