package cas_test

import (
	"context"
	"errors"

	"github.com/katsubushi/katsubushi/v3/test/memcas"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

var errLost = errors.New("the answer did not come")

// failing carries out so many commits and fails the others.
type failing struct {
	memcas.Driver
	left int
}

func (d *failing) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	if d.left--; d.left < 0 {
		return cas.Answer{}, errLost
	}
	return d.Driver.Commit(ctx, conn, c)
}

// moving does something before each Load.
type moving struct {
	memcas.Driver
	move func()
}

func (d *moving) Load(ctx context.Context, conn string) (pool.View, error) {
	d.move()
	return d.Driver.Load(ctx, conn)
}

// lossy loses the answer to the next commit.
type lossy struct {
	cas.Driver
	next bool
}

func (d *lossy) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	a, err := d.Driver.Commit(ctx, conn, c)
	if d.next {
		d.next = false
		return cas.Answer{}, errLost
	}
	return a, err
}

// noting notes what is written to a store besides leases, and fails so many raises.
type noting struct {
	memcas.Driver
	notes []string
	fails int
}

func (d *noting) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	if c.SetMeta != "" {
		d.notes = append(d.notes, "raise")
		if d.fails--; d.fails >= 0 {
			return cas.Answer{}, errLost
		}
	}
	return d.Driver.Commit(ctx, conn, c)
}

func (d *noting) Announce(ctx context.Context, conn string, worker uint64, text string) error {
	d.notes = append(d.notes, map[bool]string{true: "delete", false: "announce"}[text == ""])
	return d.Driver.Announce(ctx, conn, worker, text)
}
