package etcd

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

var protocol = cas.Protocol{Scheme: "etcd", Port: 2379}

// Schemes returns the schemes of Config's URLs.
func Schemes() []string { return protocol.Schemes() }

// Config is what a Store is made of. The URL begins with etcd:// or etcds://.
type Config struct {
	cas.Settings
	Timeout time.Duration // of one call; 0 = cas.DefaultTimeout
}

// Validate returns everything that is wrong with the settings, as an error of package problem. It
// reads no file.
func (c Config) Validate() error { return c.Check(protocol) }

// BestHeartbeat is a suitable mean time between two extensions.
func (c Config) BestHeartbeat() time.Duration { return cas.BestHeartbeat(c.WithDefaults().Lease) }

// Open makes a Store. It does not connect yet, so etcd need not be running.
func (c Config) Open() (workerid.Backend, error) {
	s, err := Open(c)
	if err != nil {
		return nil, err // not a nil *Store in an interface
	}
	return s, nil
}

// Open makes a Store. Its error is that of Config.Validate and Config.ReadSecrets.
func Open(c Config) (*cas.Store, error) {
	c.Terms = c.WithDefaults()
	if c.Heartbeat == 0 {
		c.Heartbeat = c.BestHeartbeat()
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	made, err := c.made(lasting)
	if err != nil {
		return nil, err
	}
	return cas.Open(made)
}

// OpenAdmin makes the operator's interface to the pool. It needs the URL, and all other settings only
// for Init.
func (c Config) OpenAdmin() (workerid.Admin, error) {
	made, err := c.made(passing)
	if err != nil {
		return nil, err
	}
	a, err := cas.OpenAdmin(made)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// made returns the settings of a Store or an Admin, with a driver of its own.
func (c Config) made(l life) (cas.Config, error) {
	c.Terms = c.WithDefaults()
	if c.Timeout == 0 {
		c.Timeout = cas.DefaultTimeout
	}
	t, problems := c.Target(protocol)
	if err := errors.Join(problems.Err(), c.ReadSecrets()); err != nil {
		return cas.Config{}, err
	}
	d := newDriver(c, t, l)
	return cas.Config{
		Terms: c.Terms, Driver: d, Kind: protocol.Scheme, Where: t.Where(), Path: d.link.Root, Addr: c.Addr, Boot: c.Boot, Timeout: c.Timeout,
	}, nil
}

// link returns how to connect.
func (c Config) link(t cas.Target) etcdlink.Target {
	before := "http://"
	if t.TLS {
		before = "https://"
	}
	l := etcdlink.Target{
		User: t.User, Root: t.Key() + "/",
		Password: func() (string, error) { return c.Secret(t) },
		TLS:      func() (*tls.Config, error) { return c.Encryption(t) },
	}
	for _, host := range t.Hosts {
		l.Endpoints = append(l.Endpoints, before+host)
	}
	return l
}
