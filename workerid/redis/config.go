package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// DefaultNamespace is the name of a pool whose URL names none.
const DefaultNamespace = "yaraus"

// maxWorkers is how many worker ids a pool may have. When a pool is made, and after a loss, Redis does
// nothing else while it writes all of them, which takes a third of a second for this many.
const maxWorkers = 1 << 16

// Config holds the settings of a Store. URL, Layout, Min and Max are required. A pool has at most
// 65,536 worker ids, and a lease is at least four times workerid.Epsilon.
type Config struct {
	// URL is the address of Redis, with the pool's name as ns=NAME in its query:
	//
	//	redis://user:password@host:port/db      rediss: with TLS
	//	rediscluster://host:port,host:port      redisclusters: with TLS
	//	redis+sentinel://host:port,host:port/master/db      rediss+sentinel: with TLS to all
	//	unix:///path?db=N
	//
	// The query may also have sentinel_username and sentinel_password, the credentials for the
	// Sentinels themselves; with TLS ca=FILE, the authorities of the servers' certificates, by default the
	// system's, and cert=FILE&key=FILE, this client's, read again for each connection; and options of go-redis.
	URL string

	workerid.Terms
	Options
	TLS *tls.Config // for URLs with TLS, instead of the files that they name; nil = those
}

// Options are the settings that only this kind of store has.
type Options struct {
	// PasswordFile is a file with the password for the data servers; the user name stays in the
	// URL. A newline at the end is not part of the password. The file is read for every connection,
	// so a new password needs no restart. Empty: the URL has the password, if any. Package
	// secretfile says which permissions the file needs.
	PasswordFile string

	// HoldRaus is the namespace of raus clients (the daemons of kayac/go-katsubushi) that use the same
	// worker ids. The Store then holds their locks too, on the same Redis. Empty: there are none. The
	// lease is at most 5 min with it. docs/MIGRATING.md says what these locks guarantee and what not.
	HoldRaus string

	// Replicas is how many replicas must have a grant before it counts. 0: none; after a fail-over
	// newcomers wait until all lost grants are over. More than 0: leases are not extended while fewer,
	// or more, replicas are connected. The pool's own setting takes precedence.
	Replicas int

	AllowEviction bool // accept a Redis that may evict the pool's keys. Eviction loses worker ids, and may repeat ids
}

// BestHeartbeat is a suitable mean time between two extensions. Beside clients of raus it is as short
// as theirs, because only an extension notices that one of them has begun to use the same worker id.
func (c Config) BestHeartbeat() time.Duration {
	if c.HoldRaus != "" {
		return time.Second
	}
	return workerid.HeartbeatOf(c.WithDefaults().Lease)
}

// Pool returns the number of the database and the pool's name: /0/yaraus.
func (c Config) Pool() string {
	t, _ := c.target()
	return fmt.Sprintf("/%d/%s", t.Options.DB, t.Namespace)
}

// target says where the pool is and how to log in.
func (c Config) target() (redislink.Target, error) {
	t, err := redislink.Parse(c.URL, c.PasswordFile, DefaultNamespace)
	t.Custom = c.TLS
	return t, err
}

// Validate returns everything that is wrong with the settings; see workerid.SettingErrors. Open
// refuses such settings. Validate reads no file.
func (c Config) Validate() error {
	c.Terms = c.WithDefaults()
	var problems problem.List
	wrong := problems.Add
	_, err := c.target()
	problems.Include("", err)
	problems.Include("", c.Terms.Validate())
	if c.Min <= c.Max && c.Max-c.Min >= maxWorkers {
		wrong("Max", "a pool has at most %d worker ids, not those from %d to %d", maxWorkers, c.Min, c.Max)
	}
	if c.HoldRaus != "" && c.Lease > rausMaxLease {
		wrong("Lease", "%v is too long beside locks of raus: at most %v", c.Lease, rausMaxLease)
	}
	if c.Replicas < 0 {
		wrong("Replicas", "%d: not below 0", c.Replicas)
	}
	return problems.Err()
}

// ReadSecrets reads the password and the files of TLS as every connection will, and returns what is wrong with
// them, in the same form as Validate.
func (c Config) ReadSecrets() error {
	t, _ := c.target()
	return t.ReadSecrets(nil)
}

// check is done by Open and Init.
func (c Config) check() error { return errors.Join(c.Validate(), c.ReadSecrets()) }

// maxLease is the longest lease of any program that uses the worker ids.
func (c *Config) maxLease() time.Duration {
	if c.HoldRaus != "" {
		return max(c.Lease, rausExpiry)
	}
	return c.Lease
}

func (c *Config) terms() script.Terms {
	return script.Terms{
		Fingerprint: c.Fingerprint(), Lease: c.Lease.Milliseconds(), MaxLease: c.maxLease().Milliseconds(),
		MaxSkew: c.MaxSkew.Milliseconds(),
		Epsilon: workerid.Epsilon(c.MaxSkew).Milliseconds(), Replicas: c.Replicas, Min: c.Min, Max: c.Max,
	}
}

// Leased says that worker ids are leased from the pool at a URL, see Config.URL, with the settings that daemons have
// by default. Config.Provider has others.
func Leased(url string) workerid.Provider { return Config{URL: url}.Provider() }

// Provider says that worker ids are leased from a pool.
func (c Config) Provider() workerid.Provider {
	return workerid.Provider{Lease: func(terms workerid.Terms) workerid.Leases {
		c := c
		c.Terms = c.Or(terms)
		return c
	}}
}
