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
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// A Target is a parsed URL. The zero Target is none.
type Target struct {
	endpoint.Target // its Hosts are servers, Sentinels or cluster nodes
	Kind            Kind
	Options         goredis.Options // for data servers; Addr only where there is one
	Custom          *tls.Config     // of connections with TLS, instead of what the URL says; nil = that
	Query           url.Values      // what the query has of own names, see Parse
	Limit           time.Duration   // of each step; 0 = DialTimeout and Patience
	seeds           []string        // the servers to ask for the master, in order
	master          string          // the Sentinels' name for it
	sentinel        goredis.Options // for Sentinels
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
	t.User, t.Password, t.PasswordFile = u.User, u.Password, file
	if t.Options.Username, t.Options.Password = u.User, u.Password; file != "" {
		t.Options.CredentialsProviderContext = func(context.Context) (string, string, error) {
			password, err := endpoint.Secret("", file)
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
		return errors.New("the query after ? cannot be read")
	}
	ours := slices.Concat([]string{"ns", "sentinel_username", "sentinel_password"}, endpoint.FileOptions, own)
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
	encrypted := slices.IndexFunc(schemes, func(s scheme) bool { return s.kind == t.Kind && s.base == "rediss" })
	t.TLS = schemes[i].base == "rediss"
	if err := t.ReadFiles(values, schemes[encrypted].name); err != nil {
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
	if t.Kind == Single && len(t.Hosts) > 0 {
		t.Options.Addr = t.Hosts[0]
	}
	return nil
}

// readServers reads the hosts, and removes the master's name from the path.
func (t *Target) readServers(u *endpoint.URL) error {
	port := endpoint.RedisPort
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
		port = endpoint.SentinelPort
		if t.master, u.Path, _ = strings.Cut(u.Path, "/"); t.master == "" {
			return errors.New("the master's name is missing: redis+sentinel://HOSTS/NAME")
		}
	}
	var errs []error
	t.Hosts, errs = u.Addresses(port)
	t.seeds = t.Hosts
	return cmp.Or(errs...)
}

// Where lists the servers in the URL.
func (t *Target) Where() string {
	servers := cmp.Or(strings.Join(t.Hosts, ","), t.Options.Addr)
	if t.Kind == Sentinels {
		servers = t.master + " of " + servers
	}
	if t.TLS {
		servers += " with TLS"
	}
	return servers
}

// at makes the options for one of the URL's servers. It reads the files of TLS.
func (t *Target) at(o goredis.Options, addr string) (*goredis.Options, error) {
	o.Addr, o.NodeAddress = addr, ""
	if t.TLS {
		c, err := t.Custom.Clone(), error(nil)
		if c == nil {
			if c, err = t.Encryption(); err != nil {
				return nil, err
			}
			c.InsecureSkipVerify = o.TLSConfig.InsecureSkipVerify
		}
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(addr)
		}
		o.TLSConfig = c
	}
	plain(&o)
	if t.Limit > 0 {
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout = t.Limit, t.Limit, t.Limit
	}
	return &o, nil
}

// Open finds the master, connects to it and checks that it may be used.
func (t *Target) Open(ctx context.Context, key string, allowEviction bool) (*Link, error) {
	addr, err := t.Find(ctx, key)
	if err != nil {
		return nil, err
	}
	o, err := t.at(t.Options, addr)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	l, err := open(ctx, o, allowEviction)
	if err != nil {
		t.Doubt()
	}
	return l, err
}

// maxNodes is how many cluster nodes are remembered besides those in the URL. Asking a dead one
// takes a second.
const maxNodes = 32

// Find asks Sentinels or cluster nodes for the master. The first seed that answers is asked first
// next time.
func (t *Target) Find(ctx context.Context, key string) (addr string, err error) {
	if t.Kind == Single {
		return t.Options.Addr, nil
	}
	ask, o := askNode, t.Options
	if t.Kind == Sentinels {
		ask, o, key = askSentinel, t.sentinel, t.master
	}
	var nodes []string
	seed, err := t.askSeeds(ctx, o, func(ctx context.Context, o *goredis.Options) (err error) {
		addr, nodes, err = ask(ctx, o, key)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("redis: no master found: %w", err)
	}
	t.learn(seed, nodes)
	return addr, nil
}

// Replicas returns how many replicas of the master a Sentinel knows, also those that are away. The first one
// that answers counts.
func (t *Target) Replicas(ctx context.Context) (n int, err error) {
	_, err = t.askSeeds(ctx, t.sentinel, func(ctx context.Context, o *goredis.Options) (err error) {
		n, err = askReplicas(ctx, o, t.master)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("redis: no Sentinel says which replicas it knows: %w", err)
	}
	return n, nil
}

// askSeeds dials one seed after another until one answers, and returns that one.
func (t *Target) askSeeds(ctx context.Context, base goredis.Options,
	ask func(context.Context, *goredis.Options) error) (string, error) {
	var errs []error
	for _, seed := range t.seeds {
		o, err := t.at(base, seed)
		if err == nil {
			err = within(ctx, o, ask)
		}
		if err == nil {
			return seed, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", seed, err))
	}
	return "", errors.Join(errs...)
}

// within dials a server and asks it, in the time of one step.
func within(ctx context.Context, o *goredis.Options, ask func(context.Context, *goredis.Options) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	if err := dial(ctx, o); err != nil {
		return err
	}
	return ask(ctx, o)
}

// learn makes new seeds: the server that answered, those in the URL, and the nodes that the answer
// listed. A cluster may move until only nodes are left that the URL does not name. Nodes from earlier
// answers are forgotten.
func (t *Target) learn(seed string, nodes []string) {
	t.seeds = nil
	for _, s := range slices.Concat([]string{seed}, t.Hosts, nodes) {
		if len(t.seeds) <= len(t.Hosts)+maxNodes && !slices.Contains(t.seeds, s) {
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
