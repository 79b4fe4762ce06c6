package redis

import (
	"crypto/tls"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/redislink"
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
	Operator     bool        // may begin a namespace: a human says that there was none
	TLS          *tls.Config // of URLs with TLS, instead of the files that they name; nil = those

	now    func() int64  // this host's clock, Unix ms; nil = that
	anyMax bool          // for tests: sequences may be short
	limit  time.Duration // for tests: of each step; 0 = that of redislink
}

func (c Config) parse() (t redislink.Target, k replicas, err error) {
	var problems problem.List
	t, err = redislink.Parse(c.URL, c.PasswordFile, DefaultNamespace, "replicas")
	if t.Custom, t.Limit = c.TLS, c.limit; err != nil {
		return t, k, err
	}
	k.named = t.Query.Has("replicas")
	if text := t.Query.Get("replicas"); k.named {
		if k.n, err = strconv.Atoi(text); err != nil || k.n < 0 || k.n > maxReplicas {
			problems.Add("URL", "replicas=%.20s: 0 to %d allowed", text, maxReplicas)
		}
	}
	if err == nil && k.n == 0 && t.Kind != redislink.Single && !c.Operator {
		problems.Add("URL", "%w: %s. If sequences are recorded there already, "+
			"first `katsubushi name replicas K -counters URL`, with this URL", ErrNoReplicas, whyReplicas)
	}
	return t, k, problems.Err()
}

// Validate returns everything that is wrong with the settings; see workerid.SettingErrors. It reads
// no file.
func (c Config) Validate() error {
	_, _, err := c.parse()
	return err
}

// ReadSecrets reads the password and the files of TLS as every connection will, and returns what is wrong with
// them, in the same form as Validate.
func (c Config) ReadSecrets() error {
	t, _, _ := c.parse()
	return t.ReadSecrets(nil)
}

func wallClock() int64 { return time.Now().UnixMilli() }
