package zookeeper

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

var protocol = cas.Protocol{Scheme: "zookeeper", Port: 2181, Beside: "zookeeper"}

// Config holds the settings of a store. Its URL is
//
//	zookeeper://USER:PASSWORD@HOST:2181,HOST:2181/CHROOT?ns=NAME      zookeepers: with TLS
//
// With a user, keys are created for this user alone (digest); without one, everybody may change them.
type Config struct {
	cas.Settings
	Timeout time.Duration // of one call; 0 = cas.DefaultTimeout
}

// Schemes returns the schemes of Config's URLs.
func Schemes() []string { return protocol.Schemes() }

// Validate returns everything that is wrong with the settings, as an error of package problem. It
// reads no file.
func (c Config) Validate() error { return c.Check(protocol) }

// BestHeartbeat is a suitable mean time between two extensions. It is short because newcomers watch
// the pool for a little longer than that before they take a worker id.
func (c Config) BestHeartbeat() time.Duration {
	return cas.BestHeartbeat(c.WithDefaults().Lease)
}

// minSession is the shortest session that is asked for. The server may give a shorter one.
const minSession = 6 * time.Second

// Open makes a Store. It does not connect yet, so ZooKeeper need not be running.
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
	made, err := c.store()
	if err != nil {
		return nil, err
	}
	return cas.Open(made)
}

// OpenAdmin makes the operator's interface to the pool. It needs the URL, and all other settings only
// for Init.
func (c Config) OpenAdmin() (workerid.Admin, error) {
	made, err := c.store()
	if err != nil {
		return nil, err
	}
	a, err := cas.OpenAdmin(made)
	if err != nil {
		return nil, err
	}
	return a, nil
}

// store returns the settings of a Store or an Admin, with a driver of its own.
func (c Config) store() (cas.Config, error) {
	c.Terms = c.WithDefaults()
	t, problems := c.Target(protocol)
	if err := errors.Join(problems.Err(), c.ReadSecrets()); err != nil {
		return cas.Config{}, err
	}
	return cas.Config{
		Terms: c.Terms, Driver: newDriver(c.Settings, t), Kind: protocol.Scheme, Where: t.Where(), Path: t.Key() + "/", Addr: c.Addr, Boot: c.Boot, Timeout: c.Timeout,
	}, nil
}

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
