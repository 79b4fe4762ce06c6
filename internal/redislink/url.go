package redislink

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// A Target is a parsed URL. The zero Target is none.
type Target struct {
	Namespace string
	Kind      Kind
	Options   goredis.Options // for data servers; Addr only where there is one
	named     []string        // the URL's servers, Sentinels or cluster nodes, host:port
	seeds     []string        // the servers to ask for the master, in order
	Query     url.Values      // what the query has of own names, see Parse
	master    string          // the Sentinels' name for it
	sentinel  goredis.Options // for Sentinels
}

// A Kind says how the master is found.
type Kind int

// The kinds.
const (
	Single    Kind = iota // it is the server in the URL
	Sentinels             // they are asked
	Cluster               // a node is asked for the one that has the key
)

type scheme struct {
	name string
	kind Kind
	base string // the client library's scheme for a server
}

var schemes = []scheme{
	{"redis", Single, "redis"}, {"rediss", Single, "rediss"},
	{"rediscluster", Cluster, "redis"}, {"redisclusters", Cluster, "rediss"},
	{"redis+sentinel", Sentinels, "redis"}, {"rediss+sentinel", Sentinels, "rediss"},
	{"unix", Single, "unix"},
}

// Schemes returns the schemes of URLs.
func Schemes() (names []string) {
	for _, s := range schemes {
		names = append(names, s.name)
	}
	return names
}

// Parse parses a URL. file has the password instead, and is read for each connection; "" = none. namespace
// is that of a URL without ns. own are names that the query may have besides, which Query returns. The
// error is of package problem, with the fields URL and PasswordFile. It does not repeat what may be a password.
func Parse(text, file, namespace string, own ...string) (t Target, err error) {
	var problems problem.List
	u, err := endpoint.Split(text)
	if err := cmp.Or(t.read(&u, namespace, own), err); err != nil {
		problems.Add("URL", "%w", err)
	}
	endpoint.CheckPassword(u.Password, file, &problems)
	if t.Options.Username, t.Options.Password = u.User, u.Password; file != "" {
		t.Options.CredentialsProviderContext = func(context.Context) (string, string, error) {
			password, err := secretfile.Password(file)
			return u.User, password, err
		}
	}
	return t, problems.Err()
}

func (t *Target) read(u *endpoint.URL, namespace string, own []string) error {
	i := slices.IndexFunc(schemes, func(s scheme) bool { return s.name == u.Scheme })
	if i < 0 {
		return fmt.Errorf("a URL begins with %s, and ://", strings.Join(Schemes(), ", "))
	}
	values, err := url.ParseQuery(u.Query)
	if err != nil {
		return errors.New("what follows ? cannot be read")
	}
	ours := append([]string{"ns", "sentinel_username", "sentinel_password"}, own...)
	mayStray := *u
	if t.Kind = schemes[i].kind; schemes[i].base == "unix" {
		mayStray.Path = ""
	}
	t.Namespace, t.Query = cmp.Or(values.Get("ns"), namespace), url.Values{}
	if strings.ContainsAny(t.Namespace, "{}") {
		return errors.New("a namespace has no braces")
	}
	if err := cmp.Or(mayStray.Stray(ours...), t.readServers(u)); err != nil {
		return err
	}
	t.sentinel = goredis.Options{Network: "tcp", Username: values.Get(ours[1]), Password: values.Get(ours[2])}
	for _, name := range ours {
		if slices.Contains(own, name) && values.Has(name) {
			t.Query[name] = values[name]
		}
		values.Del(name)
	}
	options, err := goredis.ParseURL(schemes[i].base + ":///" + u.Path + "?" + values.Encode())
	var malformed *url.Error
	switch {
	case errors.As(err, &malformed):
		return fmt.Errorf("the URL: %w", malformed.Err)
	case err != nil:
		return fmt.Errorf("the URL: %s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	t.Options, t.sentinel.TLSConfig = *options, options.TLSConfig
	if t.Kind == Single && len(t.named) > 0 {
		t.Options.Addr = t.named[0]
	}
	return nil
}

// readServers reads the hosts, and removes the master's name from the path.
func (t *Target) readServers(u *endpoint.URL) error {
	port := 6379
	switch {
	case u.Scheme == "unix" && u.Path == "":
		return errors.New("the URL names no socket: unix:///PATH")
	case u.Scheme == "unix":
		return nil
	case t.Kind == Single && len(u.Hosts) > 1:
		return errors.New("several hosts are for rediscluster and redis+sentinel")
	case t.Kind == Cluster && u.Path != "" && u.Path != "0":
		return errors.New("a cluster has no databases")
	case t.Kind == Sentinels:
		port = 26379
		if t.master, u.Path, _ = strings.Cut(u.Path, "/"); t.master == "" {
			return errors.New("the master's name is missing: redis+sentinel://HOSTS/NAME")
		}
	}
	var errs []error
	t.named, errs = u.Addresses(port)
	t.seeds = t.named
	return cmp.Or(errs...)
}

// Where lists the servers in the URL.
func (t *Target) Where() string {
	servers := cmp.Or(strings.Join(t.named, ","), t.Options.Addr)
	if t.Kind == Sentinels {
		servers = t.master + " of " + servers
	}
	if t.Options.TLSConfig != nil {
		servers += " with TLS"
	}
	return servers
}

// At makes the options for one of the URL's servers.
func At(o goredis.Options, addr string, custom *tls.Config) *goredis.Options {
	o.Addr, o.NodeAddress = addr, ""
	if o.TLSConfig != nil {
		c := o.TLSConfig
		if custom != nil {
			c = custom
		}
		c = c.Clone()
		if c.ServerName == "" || custom == nil {
			c.ServerName, _, _ = net.SplitHostPort(addr)
		}
		o.TLSConfig = c
	}
	return plain(&o)
}

// maxNodes is how many cluster nodes are remembered besides those in the URL. Asking a dead one
// takes a second.
const maxNodes = 32

// Find asks Sentinels or cluster nodes for the master. The first seed that answers is asked first
// next time.
func (t *Target) Find(ctx context.Context, key string, custom *tls.Config) (addr string, err error) {
	if t.Kind == Single {
		return t.Options.Addr, nil
	}
	var errs []error
	for _, seed := range t.seeds {
		var nodes []string
		if t.Kind == Sentinels {
			addr, err = askSentinel(ctx, At(t.sentinel, seed, custom), t.master)
		} else {
			addr, nodes, err = askNode(ctx, At(t.Options, seed, custom), key)
		}
		if err == nil {
			t.learn(seed, nodes)
			return addr, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", seed, err))
	}
	return "", fmt.Errorf("redis: no master found: %w", errors.Join(errs...))
}

// Replicas returns how many replicas of the master a Sentinel knows, also those that are away. The first one
// that answers counts.
func (t *Target) Replicas(ctx context.Context, custom *tls.Config) (n int, err error) {
	var errs []error
	for _, seed := range t.seeds {
		if n, err = askReplicas(ctx, At(t.sentinel, seed, custom), t.master); err == nil {
			return n, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", seed, err))
	}
	return 0, fmt.Errorf("redis: no Sentinel says which replicas it knows: %w", errors.Join(errs...))
}

// learn makes new seeds: the server that answered, those in the URL, and the nodes that the answer
// listed. A cluster may move until only nodes are left that the URL does not name. Nodes from earlier
// answers are forgotten.
func (t *Target) learn(seed string, nodes []string) {
	t.seeds = nil
	for _, s := range slices.Concat([]string{seed}, t.named, nodes) {
		if len(t.seeds) <= len(t.named)+maxNodes && !slices.Contains(t.seeds, s) {
			t.seeds = append(t.seeds, s)
		}
	}
}

// Doubt is called when the master that Find returned is not a master, cannot be reached or fails. The
// seed that named it may be wrong for a long time, so another seed is asked next.
func (t *Target) Doubt() {
	if len(t.seeds) > 1 {
		t.seeds = slices.Concat(t.seeds[1:], t.seeds[:1])
	}
}
