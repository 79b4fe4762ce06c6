package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis/script"
)

// DefaultNamespace is the name of a pool whose URL names none.
const DefaultNamespace = "yaraus"

// maxWorkers is how many worker ids a pool may have: when it is made, and after a loss, Redis does nothing else while it writes all of them down.
// These take a third of a second.
const maxWorkers = 1 << 16

// Config is what a Store is made of. URL, Layout, Min and Max are needed; a pool has 65,536 worker ids at most, and a lease is at least four
// times workerid.Epsilon.
type Config struct {
	// URL says where Redis is and, as ns=NAME in its query, what the pool is called:
	//
	//	redis://user:password@host:port/db      rediss: with TLS
	//	rediscluster://host:port,host:port      redisclusters: with TLS
	//	redis+sentinel://host:port,host:port/master/db      rediss+sentinel: with TLS to all
	//	unix:///path?db=N
	//
	// Sentinels' own credentials are sentinel_username and sentinel_password in the query; go-redis's options may stand there too.
	URL string

	workerid.Terms
	Options
	TLS *tls.Config // instead of the system's certificates, for URLs with TLS
}

// Options are the settings that no other store has.
type Options struct {
	// PasswordFile holds the password of the data servers, when it is not in the URL; its user is. A newline at its end is not part of it.
	// It is read for every connection, so a new password needs no restart. Empty: the URL says it all. See package secretfile on
	// permissions.
	PasswordFile string

	// HoldRaus is the namespace of clients of raus, kayac/go-katsubushi's daemons, that use the same worker ids: their locks are held as well,
	// on the same Redis. Empty: there are none. What they are good for and what not is in docs/MIGRATING.md. The lease is at most 5 min then.
	HoldRaus string

	// Replicas must have a grant before it counts. 0: none, and what a fail-over loses is made good by waiting. More: leases stop being
	// extended while fewer are connected, and while more are. What the pool says goes before it.
	Replicas int

	AllowEviction bool // accept a Redis that may evict the pool's keys. That loses worker ids, and may repeat ids
}

// BestHeartbeat is the mean time between two extensions that suits these settings. Beside clients of raus it is as often as theirs: until then
// nobody notices that one of them has come to use the same worker id.
func (c Config) BestHeartbeat() time.Duration {
	if c.HoldRaus != "" {
		return time.Second
	}
	return workerid.HeartbeatOf(c.WithDefaults().Lease)
}

// target is where the pool is, and how to log in.
func (c Config) target() (target, error) {
	t, err := parseURL(c.URL)
	if err != nil || c.PasswordFile == "" {
		return t, err
	}
	if t.options.Password != "" {
		return target{}, errors.New("redis: there is a password in the URL and in a file")
	}
	user, file := t.options.Username, c.PasswordFile
	t.options.CredentialsProviderContext = func(context.Context) (string, string, error) {
		password, err := readPassword(file)
		return user, password, err
	}
	return t, nil
}

const maxPassword = 4096 // bytes

// readPassword reads a file with a password in it.
func readPassword(path string) (string, error) {
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: no regular file, and it is read for every connection", path)
	}
	text, err := secretfile.Read(path, maxPassword+len("\r\n"))
	if err != nil {
		return "", err
	}
	text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	switch {
	case len(text) == 0:
		return "", fmt.Errorf("%s: no password is in it", path)
	case len(text) > maxPassword:
		return "", fmt.Errorf("%s: larger than %d bytes", path, maxPassword)
	}
	return string(text), nil
}

// Validate finds everything that is wrong with the settings. The error is of package problem; with any, Open refuses them. No file is read.
func (c Config) Validate() error {
	c.Terms = c.WithDefaults()
	var problems problem.List
	wrong := problems.Add
	t, err := parseURL(c.URL)
	if err != nil {
		wrong("URL", "%w", err)
	}
	if c.PasswordFile != "" && t.options.Password != "" {
		wrong("PasswordFile", "there is a password in the URL too: one of the two is allowed")
	}
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

// ReadSecrets reads the password as every connection will, and says what is wrong with its file. Its error is one of Validate's.
func (c Config) ReadSecrets() error {
	var problems problem.List
	if c.PasswordFile != "" {
		if _, err := readPassword(c.PasswordFile); err != nil {
			problems.Add("PasswordFile", "%w", err)
		}
	}
	return problems.Err()
}

// check is what Open and Init ask for.
func (c Config) check() error { return errors.Join(c.Validate(), c.ReadSecrets()) }

// maxLease is the longest lease of anyone who uses the worker ids.
func (c *Config) maxLease() time.Duration {
	if c.HoldRaus != "" {
		return max(c.Lease, rausExpiry)
	}
	return c.Lease
}

func (c *Config) terms() script.Terms {
	return script.Terms{
		Fingerprint: c.Fingerprint(), Lease: c.Lease.Milliseconds(), MaxLease: c.maxLease().Milliseconds(), MaxSkew: c.MaxSkew.Milliseconds(),
		Epsilon: workerid.Epsilon(c.MaxSkew).Milliseconds(), Replicas: c.Replicas, Min: c.Min, Max: c.Max,
	}
}
