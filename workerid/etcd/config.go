package etcd

import (
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

var stores = cas.Kind{Protocol: cas.Protocol{Scheme: "etcd", Port: endpoint.EtcdPort},
	Driver: func(s cas.Settings, t cas.Target, timeout time.Duration, lasting bool) cas.Driver {
		return newDriver(Config{s, timeout}, t, lasting)
	}}

// Schemes returns the schemes of Config's URLs.
func Schemes() []string { return stores.Schemes() }

// Config is what a Store is made of. The URL begins with etcd:// or etcds://.
type Config struct {
	cas.Settings
	Timeout time.Duration // of one call; 0 = cas.DefaultTimeout
}

// Validate returns everything that is wrong with the settings; see workerid.SettingErrors. It reads no file.
func (c Config) Validate() error { return c.Check(stores.Protocol) }

// BestHeartbeat is a suitable mean time between two extensions.
func (c Config) BestHeartbeat() time.Duration { return cas.BestHeartbeat(c.WithDefaults().Lease) }

// Pool returns the key of the pool's records: /katsubushi.
func (c Config) Pool() string {
	t, _ := c.Target(stores.Protocol)
	return t.Key()
}

// Open makes a Store. It does not connect yet.
func (c Config) Open() (workerid.Backend, error) { return stores.Backend(c.Settings, c.Timeout) }

// OpenAdmin makes the operator's interface to the pool. It needs the URL, and all other settings only
// for Init.
func (c Config) OpenAdmin() (workerid.Admin, error) { return stores.Admin(c.Settings, c.Timeout) }

// Leased says that worker ids are leased from the pool at a URL, see Config, with the settings that daemons have by
// default. Config.Provider has others.
func Leased(url string) workerid.Provider {
	return Config{Settings: cas.Settings{URL: url}}.Provider()
}

// Provider says that worker ids are leased from a pool.
func (c Config) Provider() workerid.Provider {
	return workerid.Provider{Lease: func(terms workerid.Terms) workerid.Leases {
		c := c
		c.Terms = c.Or(terms)
		return c
	}}
}
