package etcd

import (
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/castest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/storefaults"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// patience is the time of a call on a busy machine, lease that of a lease which such a machine renews in time.
const (
	patience = time.Minute
	lease    = 4 * time.Minute // half of it in etcd
)

var pools atomic.Int64

// settings are those of a daemon, with a pool that nobody else has.
func settings(t testing.TB, all ...*etcdtest.Member) Config {
	var hosts []string
	for _, m := range all {
		hosts = append(hosts, m.Addr())
	}
	return Config{Timeout: patience, Settings: cas.Settings{
		URL: "etcd://" + strings.Join(hosts, ",") + "/" + etcdtest.Namespace(t) + "?ns=pool" +
			strconv.FormatInt(pools.Add(1), 10),
		Terms:   workerid.Terms{Layout: "test", Min: 3, Max: 6, Lease: lease, Heartbeat: time.Second},
		Options: cas.Options{Boot: func() int64 { return time.Now().UnixNano() }},
	}}
}

// A driver is a daemon's, or an operator's.
const lasting, passing = true, false

func driverOf(t testing.TB, c Config, l bool) *driver {
	t.Helper()
	made, err := stores.Config(c.Settings, c.Timeout, l)
	if err != nil {
		t.Fatal(err)
	}
	d := made.Driver.(*driver)
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDriver(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	castest.Run(t, func(t testing.TB) castest.Place {
		c := settings(t, m)
		return func(t testing.TB) cas.Driver { return driverOf(t, c, lasting) }
	})
}

func TestStore(t *testing.T) {
	t.Parallel()
	m := etcdtest.Start(t)
	castest.Store(t, func(t testing.TB) castest.Place {
		c := settings(t, m)
		return func(t testing.TB) cas.Driver { return driverOf(t, c, lasting) }
	}, 1)
}

func TestFaultsAreInTheDocumentation(t *testing.T) {
	storefaults.Documented(t, "faults_test.go", "load_test.go", "refused_test.go", "wire_test.go")
}
