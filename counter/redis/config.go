package redis

import (
	"crypto/tls"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// DefaultNamespace is that of a URL without ns.
const DefaultNamespace = "katsubushi"

// maxReplicas is the largest number of replicas that a grant may wait for.
const maxReplicas = 100

// Config holds the settings of a Store.
type Config struct {
	// URL is the address of Redis, in the forms that worker ids have too, see docs/REDIS.md. Its query
	// may have ns=NAME, the namespace, and replicas=K: how many replicas must have a grant before it
	// counts, by default 0. K is the number of all replicas that may be promoted. The first record of a
	// namespace fixes it for all daemons, until SetReplicas. With Sentinels and in a cluster it is at
	// least 1; an operator's URL need not say it.
	URL string
	// PasswordFile is a file with the password, read again for every connection; empty = the URL has it, if
	// any.
	PasswordFile string
	Operator     bool // may begin a namespace: a human says that there was none
	TLS          *tls.Config

	now    func() int64 // this host's clock, Unix ms; nil = that
	anyMax bool         // for tests: sequences may be short
}

// Schemes returns the schemes of Config's URLs.
func Schemes() []string { return redislink.Schemes() }

func (c Config) parse() (t redislink.Target, k replicas, err error) {
	var problems problem.List
	if t, err = redislink.Parse(c.URL, DefaultNamespace, "replicas"); err != nil {
		problems.Add("URL", "%w", err)
		return t, k, problems.Err()
	}
	k.named = t.Query.Has("replicas")
	if text := t.Query.Get("replicas"); k.named {
		if k.n, err = strconv.Atoi(text); err != nil || k.n < 0 || k.n > maxReplicas {
			problems.Add("URL", "replicas=%.20s: 0 to %d allowed", text, maxReplicas)
		}
	}
	if err == nil && k.n == 0 && t.Kind != redislink.Single && !c.Operator {
		problems.Add("URL", "%w: %s. If sequences are recorded there already, "+
			"first `katsubushi generator replicas K -counters URL`, with this URL", ErrNoReplicas, whyReplicas)
	}
	if c.PasswordFile != "" && t.Options.Password != "" {
		problems.Add("PasswordFile", "there is a password in the URL too: one of the two is allowed")
	} else if err := t.LogIn(c.PasswordFile); err != nil {
		problems.Add("PasswordFile", "%w", err)
	}
	return t, k, problems.Err()
}

// Validate returns everything that is wrong with the settings, as an error of package problem. It reads
// no file.
func (c Config) Validate() error {
	_, _, err := c.parse()
	return err
}

// ReadSecrets reads the password as every connection will, and returns what is wrong with the file, in
// the same form as Validate.
func (c Config) ReadSecrets() error {
	var problems problem.List
	if c.PasswordFile != "" {
		if _, err := secretfile.Password(c.PasswordFile); err != nil {
			problems.Add("PasswordFile", "%w", err)
		}
	}
	return problems.Err()
}

func wallClock() int64 { return time.Now().UnixMilli() }
