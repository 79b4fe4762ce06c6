package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/katsubushi/katsubushi/v3/internal/stores"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// storeSettings returns the settings about leasing worker ids from any kind of store.
func storeSettings(o *options) []setting {
	return []setting{
		{name: "store", topic: topicDaemon, field: "Store.URL", set: text(&o.Store.URL),
			help: "lease worker ids from the store at this `URL`: those of -redis; " +
				"zookeeper://[USER@]HOST:PORT,...[/CHROOT][?ns=NAME]; or etcd://[USER@]HOST:PORT,...[/PREFIX][?ns=NAME]; " +
				"zookeepers and etcds with TLS"},
		{name: "store-password-file", topic: topicStore, field: "Store.PasswordFile", set: text(&o.Store.CAS.PasswordFile),
			help: "`file` with the password of the user in -store, instead of one in the URL: readable by its owner only, " +
				"and read again for every connection"},
		{name: "store-ca", topic: topicStore, field: "Store.CAFile", set: text(&o.Store.CAS.CAFile),
			help: "PEM `file` of the authorities of the store's certificates, for URLs with TLS; default the system's"},
		{name: "store-cert", topic: topicStore, field: "Store.CertFile", set: text(&o.Store.CAS.CertFile),
			help: "PEM `file` of the certificate that this daemon shows to the store"},
		{name: "store-key", topic: topicStore, field: "Store.KeyFile", set: text(&o.Store.CAS.KeyFile),
			help: "PEM `file` of the key of -store-cert, readable by its owner only"},
		{name: "min-worker-id", topic: topicStore, bare: true, def: "1", field: "Store.Min", set: workerID(&o.Store.Min),
			help: "smallest worker `id` to lease"},
		{name: "max-worker-id", topic: topicStore, bare: true, field: "Store.Max", set: workerID(&o.Store.Max),
			help: "largest worker `id` to lease; default the layout's largest"},
		{name: "lanes", topic: topicStore, def: "1", field: "Lanes", set: number(&o.Lanes),
			help: "how many worker ids to lease, each with its own generator"},
		{name: "lease", topic: topicStore, def: brief(workerid.DefaultLease), field: "Store.Lease",
			set: positive(&o.Store.Lease),
			help: "how far ahead a lease reaches: a somewhat shorter outage of the store has no effect; the same for all " +
				"daemons of a pool"},
		{name: "heartbeat", topic: topicStore, field: "Store.Heartbeat", set: duration(&o.Store.Heartbeat),
			help: "time between two extensions of a lease; default a twelfth of it, at least 1s; 1s with -hold-raus"},
		{name: "max-skew", topic: topicStore, def: brief(workerid.DefaultMaxSkew), field: "Store.MaxSkew",
			set:  positive(&o.Store.MaxSkew),
			help: "how much this host's clock and Redis's, or those of the other daemons, may differ"},
		{name: "lease-auto-init", topic: topicStore, bool: true, def: "false", field: "Store.AutoInit",
			set:  boolean(&o.Store.AutoInit),
			help: "create the pool if there is none, as katsubushi lease init does; its worker ids are free a lease later"},
	}
}

// redisSettings returns the settings of the Redis store only.
func redisSettings(o *options) []setting {
	return []setting{
		{name: "redis", topic: topicDaemon, bare: true, field: "Store.URL", set: value{func(v string) error {
			o.Store.URL, o.Store.Only = v, "Redis"
			return nil
		}, nil},
			help: "lease worker ids from the Redis at this `URL`: redis, rediss, rediscluster, redisclusters or " +
				"redis+sentinel; ?ns=NAME names the pool, default " + redis.DefaultNamespace},
		{name: "redis-password-file", topic: topicStore, field: "Store.PasswordFile",
			set: text(&o.Store.Redis.PasswordFile),
			help: "`file` with the password, instead of one in the URL: readable by its owner only, and read again for every " +
				"connection"},
		{name: "redis-replicas", topic: topicStore, def: "0", field: "Store.Replicas", set: number(&o.Store.Redis.Replicas),
			help: "how many replicas must have a lease before it counts; see docs/REDIS.md before setting it"},
		{name: "redis-allow-eviction", topic: topicStore, bool: true, def: "false", field: "Store.AllowEviction",
			set:  boolean(&o.Store.Redis.AllowEviction),
			help: "accept a Redis whose maxmemory-policy may evict the pool"},
		{name: "hold-raus", topic: topicStore, field: "Store.HoldRaus", set: text(&o.Store.Redis.HoldRaus),
			help: "also hold the locks of kayac/go-katsubushi's -redis in this `namespace`, raus unless its URL says " +
				"otherwise, while its daemons use the same worker ids"},
	}
}

func workerID(field *uint64) value {
	return value{set: func(v string) error {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return errors.New("a worker id is allowed")
		}
		*field = n
		return nil
	}}
}

// combineStore settles what -store and -redis mean for the other settings. kayac/go-katsubushi's 0
// stands for "not set" in three of them.
func (p *parsed) combineStore() {
	if p.Store.URL == "" {
		p.refuseWithoutStore()
		return
	}
	if len(p.WorkerIDs) == 1 && p.WorkerIDs[0] == 0 && !p.Ordinal {
		p.WorkerIDs = nil
		p.notes = append(p.notes, "worker id 0 together with "+p.Store.Flag()+" means that it is not set: one is leased")
	}
	// which a unit may set for both kinds
	if name := p.given["state-dir"]; name != "" && name != "STATE_DIRECTORY" && p.StateDir != noStateDir {
		p.notes = append(p.notes, name+" is for sequences only: with "+p.Store.Flag()+" the windows are recorded there")
	}
	if p.Store.Min == 0 {
		p.Store.Min = 1
		p.notes = append(p.notes, "-min-worker-id 0 means the default, 1")
	}
	if p.Store.Max == 0 {
		p.Store.Max = p.Layout.MaxWorker()
		if p.given["max-worker-id"] != "" {
			p.notes = append(p.notes, fmt.Sprintf("-max-worker-id 0 means the default, %d", p.Store.Max))
		}
	}
}

// refuseWithoutStore refuses settings about leases if nothing is leased.
func (p *parsed) refuseWithoutStore() {
	// kayac's defaults
	harmless := map[string]bool{"min-worker-id": p.Store.Min == 0, "max-worker-id": p.Store.Max == 0}
	for _, s := range storeSettings(new(options)) {
		if name := p.given[s.name]; name != "" && !harmless[s.name] {
			p.problems = append(p.problems, fmt.Errorf("%s: belongs to -redis or -store, and neither is given", name))
		}
	}
	for _, s := range redisSettings(new(options)) {
		if name := p.given[s.name]; name != "" {
			p.problems = append(p.problems, fmt.Errorf("%s: belongs to -redis, which is not given", name))
		}
	}
}

// leaseProblems adds what is wrong with the store's settings, for commands that need a store.
func (p *parsed) leaseProblems(s stores.Settings) {
	if s.URL == "" {
		p.problems = append(p.problems, errors.New("-store or -redis: none given"))
		return
	}
	p.report("Store.", s.Validate(), s.ReadSecrets())
}
