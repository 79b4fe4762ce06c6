package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// A slowDriver takes a while to connect, and as long for each call.
type slowDriver struct {
	memcas.Driver
	takes time.Duration
}

func (d *slowDriver) wait(ctx context.Context) error {
	select {
	case <-time.After(d.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *slowDriver) Connect(ctx context.Context) (string, error) {
	if err := d.wait(ctx); err != nil {
		return "", err
	}
	return d.Driver.Connect(ctx)
}

func (d *slowDriver) Load(ctx context.Context, conn string) (pool.View, error) {
	if err := d.wait(ctx); err != nil {
		return pool.View{}, err
	}
	return d.Driver.Load(ctx, conn)
}

func (d *slowDriver) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	if err := d.wait(ctx); err != nil {
		return cas.Answer{}, err
	}
	return d.Driver.Commit(ctx, conn, c)
}

// A busy server takes longer for a login, or for what it is asked, than a call of a daemon may. An operator's command
// waits for that, and not forever.
func TestAdminWaitsForABusyServer(t *testing.T) {
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
			if err == nil {
				_, err = a.Restored(t.Context())
			}
			if (err == nil) != waits || time.Since(began) > time.Minute {
				t.Errorf("a server that takes %v: %v after %v", takes, err, time.Since(began))
			}
		})
	}
}
