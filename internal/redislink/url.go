package redislink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// A Target is a parsed URL. The zero Target is none.
type Target struct {
	Namespace string
	Kind      Kind
	Options   goredis.Options // for data servers; Addr only where there is one
	named     []string        // Sentinels or cluster nodes, host:port
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
	tls  bool
}

var schemes = []scheme{
	{"redis", Single, false}, {"rediss", Single, true},
	{"rediscluster", Cluster, false}, {"redisclusters", Cluster, true},
	{"redis+sentinel", Sentinels, false}, {"rediss+sentinel", Sentinels, true},
	{"unix", Single, false},
}

// Schemes returns the schemes of URLs.
func Schemes() (names []string) {
	for _, s := range schemes {
		names = append(names, s.name)
	}
	return names
}

// Parse parses a URL. namespace is that of one without ns. own are names that the query may have
// besides, which Query returns. The errors do not repeat the URL, which may contain a password.
func Parse(s, namespace string, own ...string) (Target, error) {
	name, rest, ok := strings.Cut(s, "://")
	i := slices.IndexFunc(schemes, func(s scheme) bool { return s.name == name })
	if !ok || i < 0 {
		names := Schemes()
		last := len(names) - 1
		return Target{},
			fmt.Errorf("redis: a URL begins with %s or %s, and ://", strings.Join(names[:last], ", "), names[last])
	}
	form := schemes[i]
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return Target{}, errors.New("redis: the URL's query is malformed")
	}
	t := Target{Kind: form.kind, Namespace: values.Get("ns")}
	if t.Namespace == "" {
		t.Namespace = namespace
	}
	if strings.ContainsAny(t.Namespace, "{}") {
		return Target{}, errors.New("redis: a namespace has no braces")
	}
	user, password := values.Get("sentinel_username"), values.Get("sentinel_password")
	t.Query = url.Values{}
	for _, name := range append([]string{"ns", "sentinel_username", "sentinel_password"}, own...) {
		if slices.Contains(own, name) && values.Has(name) {
			t.Query[name] = values[name]
		}
		values.Del(name)
	}

	authority, path, _ := strings.Cut(rest, "/")
	if name == "unix" && path == "" {
		return Target{}, errors.New("redis: the URL names no socket: unix:///PATH")
	}
	userinfo, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		userinfo, hosts = authority[:i+1], authority[i+1:]
	}
	list := strings.Split(hosts, ",")
	if len(list) > 1 && t.Kind == Single {
		return Target{}, errors.New("redis: several hosts are for rediscluster and redis+sentinel")
	}
	switch t.Kind {
	case Sentinels:
		t.master, path, _ = strings.Cut(path, "/")
		if t.master == "" {
			return Target{}, errors.New("redis: the master's name is missing: redis+sentinel://HOSTS/NAME")
		}
		t.named, err = addresses(list, "26379")
	case Cluster:
		if path != "" && path != "0" {
			return Target{}, errors.New("redis: a cluster has no databases")
		}
		t.named, err = addresses(list, "6379")
	}
	if err != nil {
		return Target{}, err
	}

	base := "redis"
	if form.tls {
		base = "rediss"
	}
	if name == "unix" {
		base = name
	}
	options, err := goredis.ParseURL(base + "://" + userinfo + list[0] + "/" + path + "?" + values.Encode())
	var malformed *url.Error
	if errors.As(err, &malformed) {
		err = malformed.Err
	}
	if err != nil {
		return Target{}, fmt.Errorf("redis: the URL: %w", err)
	}
	t.Options, t.seeds = *options, t.named
	t.sentinel = goredis.Options{Network: "tcp", Username: user, Password: password, TLSConfig: options.TLSConfig}
	return t, nil
}

// Where lists the servers in the URL.
func (t *Target) Where() string {
	servers := t.Options.Addr
	if t.Kind != Single {
		servers = strings.Join(t.named, ",")
	}
	if t.Kind == Sentinels {
		servers = t.master + " of " + servers
	}
	if t.Options.TLSConfig != nil {
		servers += " with TLS"
	}
	return servers
}

// addresses adds the default port to hosts without one.
func addresses(hosts []string, port string) ([]string, error) {
	var all []string
	for _, h := range hosts {
		if h == "" {
			return nil, errors.New("redis: the URL names no host")
		}
		if _, _, err := net.SplitHostPort(h); err != nil {
			h = net.JoinHostPort(strings.Trim(h, "[]"), port)
		}
		all = append(all, h)
	}
	return all, nil
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
