package redis

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

// A target is a parsed URL.
type target struct {
	namespace string
	kind      kind
	options   goredis.Options // for data servers; Addr only where there is one
	named     []string        // Sentinels or cluster nodes, host:port
	seeds     []string        // the servers to ask for the master, in order
	master    string          // the Sentinels' name for it
	sentinel  goredis.Options // for Sentinels
}

type kind int

const (
	single kind = iota
	sentinels
	cluster
)

type scheme struct {
	name string
	kind kind
	tls  bool
}

var schemes = []scheme{
	{"redis", single, false}, {"rediss", single, true},
	{"rediscluster", cluster, false}, {"redisclusters", cluster, true},
	{"redis+sentinel", sentinels, false}, {"rediss+sentinel", sentinels, true},
	{"unix", single, false},
}

// Schemes returns the schemes of Config's URLs.
func Schemes() (names []string) {
	for _, s := range schemes {
		names = append(names, s.name)
	}
	return names
}

// parseURL parses Config's URL. Its errors do not repeat the URL, which may contain a password.
func parseURL(s string) (target, error) {
	name, rest, ok := strings.Cut(s, "://")
	i := slices.IndexFunc(schemes, func(s scheme) bool { return s.name == name })
	if !ok || i < 0 {
		names := Schemes()
		last := len(names) - 1
		return target{}, fmt.Errorf("redis: a URL begins with %s or %s, and ://", strings.Join(names[:last], ", "), names[last])
	}
	form := schemes[i]
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return target{}, errors.New("redis: the URL's query is malformed")
	}
	t := target{kind: form.kind, namespace: values.Get("ns")}
	if t.namespace == "" {
		t.namespace = DefaultNamespace
	}
	if strings.ContainsAny(t.namespace, "{}") {
		return target{}, errors.New("redis: the name of a pool has no braces")
	}
	user, password := values.Get("sentinel_username"), values.Get("sentinel_password")
	for _, own := range []string{"ns", "sentinel_username", "sentinel_password"} {
		values.Del(own)
	}

	authority, path, _ := strings.Cut(rest, "/")
	if name == "unix" && path == "" {
		return target{}, errors.New("redis: the URL names no socket: unix:///PATH")
	}
	userinfo, hosts := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		userinfo, hosts = authority[:i+1], authority[i+1:]
	}
	list := strings.Split(hosts, ",")
	if len(list) > 1 && t.kind == single {
		return target{}, errors.New("redis: several hosts are for rediscluster and redis+sentinel")
	}
	switch t.kind {
	case sentinels:
		t.master, path, _ = strings.Cut(path, "/")
		if t.master == "" {
			return target{}, errors.New("redis: the master's name is missing: redis+sentinel://HOSTS/NAME")
		}
		t.named, err = addresses(list, "26379")
	case cluster:
		if path != "" && path != "0" {
			return target{}, errors.New("redis: a cluster has no databases")
		}
		t.named, err = addresses(list, "6379")
	}
	if err != nil {
		return target{}, err
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
		return target{}, fmt.Errorf("redis: the URL: %w", err)
	}
	t.options, t.seeds = *options, t.named
	t.sentinel = goredis.Options{Network: "tcp", Username: user, Password: password, TLSConfig: options.TLSConfig}
	return t, nil
}

// where lists the servers in the URL.
func (t *target) where() string {
	servers := t.options.Addr
	if t.kind != single {
		servers = strings.Join(t.named, ",")
	}
	if t.kind == sentinels {
		servers = t.master + " of " + servers
	}
	if t.options.TLSConfig != nil {
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

// at makes the options for one of the URL's servers.
func at(o goredis.Options, addr string, custom *tls.Config) *goredis.Options {
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

// find asks Sentinels or cluster nodes for the master. The first seed that answers is asked first
// next time.
func (t *target) find(ctx context.Context, key string, custom *tls.Config) (addr string, err error) {
	if t.kind == single {
		return t.options.Addr, nil
	}
	var errs []error
	for _, seed := range t.seeds {
		var nodes []string
		if t.kind == sentinels {
			addr, err = askSentinel(ctx, at(t.sentinel, seed, custom), t.master)
		} else {
			addr, nodes, err = askNode(ctx, at(t.options, seed, custom), key)
		}
		if err == nil {
			t.learn(seed, nodes)
			return addr, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", seed, err))
	}
	return "", fmt.Errorf("redis: no master found: %w", errors.Join(errs...))
}

// learn makes new seeds: the server that answered, those in the URL, and the nodes that the answer
// listed. A cluster may move until only nodes are left that the URL does not name. Nodes from earlier
// answers are forgotten.
func (t *target) learn(seed string, nodes []string) {
	t.seeds = nil
	for _, s := range slices.Concat([]string{seed}, t.named, nodes) {
		if len(t.seeds) <= len(t.named)+maxNodes && !slices.Contains(t.seeds, s) {
			t.seeds = append(t.seeds, s)
		}
	}
}

// doubt is called when the master that find returned is not a master, cannot be reached or fails. The
// seed that named it may be wrong for a long time, so another seed is asked next.
func (t *target) doubt() {
	if len(t.seeds) > 1 {
		t.seeds = slices.Concat(t.seeds[1:], t.seeds[:1])
	}
}
