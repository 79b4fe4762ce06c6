package zookeeper

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/castest"
	"github.com/katsubushi/katsubushi/v3/test/zktest"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// A lease asks for a longer session than the servers give, which is long: a busy machine does not end it.
const lease = 5 * zktest.MaxSession

var places atomic.Int64

// place is a pool's path that nobody has used.
func place(t testing.TB) castest.Place {
	t.Helper()
	s := zktest.Common(t)
	root := fmt.Sprintf("/place%d", places.Add(1))
	for _, key := range []string{"id", "on", "peers"} {
		s.Make(root + "/pool/" + key)
	}
	return func(t testing.TB) cas.Driver {
		t.Helper()
		return open(t, "zookeeper://"+s.Addr()+root+"?ns=pool")
	}
}

func open(t testing.TB, url string) *driver {
	t.Helper()
	made, err := stores.Config(cas.Settings{URL: url, Terms: workerid.Terms{Layout: "test", Min: 1, Max: 3,
		Lease: lease}}, 0, true)
	if err != nil {
		t.Fatal(err)
	}
	return made.Driver.(*driver)
}

func TestDriver(t *testing.T) { castest.Run(t, place) }

func TestStore(t *testing.T) { castest.Store(t, place, 1) }
