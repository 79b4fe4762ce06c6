package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// A slowDriver takes a while to connect.
type slowDriver struct {
	memcas.Driver
	takes time.Duration
}

func (d *slowDriver) Connect(ctx context.Context) (string, error) {
	select {
	case <-time.After(d.takes):
		return d.Driver.Connect(ctx)
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// An operator may have to log in at a busy server, which takes longer than a call of a daemon may. The command does not
// wait forever.
func TestAdminWaitsForALogin(t *testing.T) {
	for takes, waits := range map[time.Duration]bool{5 * time.Second: true, time.Hour: false} {
		synctest.Test(t, func(t *testing.T) {
			w, began := newWorld(t), time.Now()
			w.init(0, 3)
			c := w.config(w.terms(0, 3))
			c.Driver = &slowDriver{memcas.Driver{Server: w.server}, takes}
			a, err := cas.OpenAdmin(c)
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.List(t.Context())
			if (err == nil) != waits || time.Since(began) > time.Minute {
				t.Errorf("a connection that takes %v: %v after %v", takes, err, time.Since(began))
			}
		})
	}
}
