package zookeeper

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

var stores = cas.Kind{
	Protocol: cas.Protocol{Scheme: "zookeeper", Port: endpoint.ZooKeeperPort, Beside: "zookeeper"},
	Driver:   func(s cas.Settings, t cas.Target, _ time.Duration, _ bool) cas.Driver { return newDriver(s, t) },
	Reading:  60, // a pool of 4,096 worker ids takes as many answers
}

// Config holds the settings of a store. Its URL is
//
//	zookeeper://USER:PASSWORD@HOST:2181,HOST:2181/CHROOT?ns=NAME      zookeepers: with TLS
//
// With a user, keys are created for this user alone (digest); without one, every client may change them.
type Config struct {
	cas.Settings
	Timeout time.Duration // of one call; 0 = cas.DefaultTimeout
}

// Schemes returns the schemes of Config's URLs.
func Schemes() []string { return stores.Schemes() }

// Validate returns everything that is wrong with the settings; see workerid.SettingErrors. It reads no file.
func (c Config) Validate() error { return c.Check(stores.Protocol) }

// BestHeartbeat is a suitable mean time between two extensions. It is short because newcomers watch
// the pool for a little longer than that before they take a worker id.
func (c Config) BestHeartbeat() time.Duration {
	return cas.BestHeartbeat(c.WithDefaults().Lease)
}

// Pool returns the key of the pool's records: /katsubushi.
func (c Config) Pool() string {
	t, _ := c.Target(stores.Protocol)
	return t.Key()
}

// minSession is the shortest session that is asked for. The server may give a shorter one.
const minSession = 6 * time.Second

// Open makes a Store. It does not connect yet.
func (c Config) Open() (workerid.Backend, error) { return stores.Backend(c.Settings, c.Timeout) }

// OpenAdmin makes the operator's interface to the pool. It needs the URL, and all other settings only
// for Init.
func (c Config) OpenAdmin() (workerid.Admin, error) { return stores.Admin(c.Settings, c.Timeout) }

// logs is where the library's log goes.
var logs atomic.Pointer[slog.Logger]

// LogTo sends the client library's log to l, for the whole process. Until then nothing is logged.
func LogTo(l *slog.Logger) { logs.Store(l) }

// library is the library's Logger.
type library struct{}

func (library) Printf(format string, v ...any) {
	if l := logs.Load(); l != nil {
		l.Debug("zookeeper: " + fmt.Sprintf(format, v...))
	}
}

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
