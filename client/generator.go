package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Generator asks for the ids of one name. It is ready for many goroutines. Its calls end like those
// of the Client.
type Generator struct {
	c     *Client
	name  string
	wrong error // what is wrong with the name

	most   int    // ids of one request
	keys   string // " name" most times
	prefix []byte // of its VALUE lines
	stock  *stock // nil: none

	open, openText *batch // being filled; guarded by Client.mu
}

func newGenerator(c *Client, name string) *Generator {
	g := &Generator{c: c, name: name, wrong: checkName(name), prefix: []byte("VALUE " + name + " 0 ")}
	g.most = min(maxBatch, (maxRequest-len("get\r\n"))/(1+len(name)))
	if g.wrong == nil {
		g.keys = strings.Repeat(" "+name, g.most)
	}
	return g
}

// Name is the name.
func (g *Generator) Name() string { return g.name }

// ID returns a number of the name's kind, such as a snowflake or the next value of a sequence: (0, err)
// or (not 0, nil).
func (g *Generator) ID(ctx context.Context) (uint64, error) {
	crowded := g.stock != nil && ctx.Done() == nil && g.stock.enter()
	if ctx.Done() != nil || g.wrong != nil || g.stock != nil && !crowded {
		return g.one(ctx)
	}
	// The path of a thousand goroutines: what costs is the part of each one's stack that they wake up with.
	c := g.c
	c.mu.Lock()
	b := g.open
	if b == nil || b.n >= b.limit {
		c.mu.Unlock()
		if crowded {
			defer g.stock.leave()
		}
		return g.fresh(ctx)
	}
	i := b.n
	b.n++
	b.joined++
	b.woken.Wait() // unlocks c.mu
	if crowded {
		g.stock.leave()
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.at(i), nil
}

// one is ID for all other callers.
func (g *Generator) one(ctx context.Context) (uint64, error) {
	if err := g.usable(ctx); err != nil {
		return 0, err
	}
	if g.stock != nil {
		var one [1]uint64
		switch _, err := g.stock.take(ctx, one[:]); err {
		case nil:
			return one[0], nil
		case errCrowd:
		default:
			return 0, err
		}
		defer g.stock.leave()
	}
	return g.fresh(ctx)
}

// fresh is an id that is asked for now.
func (g *Generator) fresh(ctx context.Context) (uint64, error) {
	b, i, err := g.c.join(g, false, 1)
	if err == nil {
		err = g.c.wait(ctx, b)
	}
	if err != nil {
		return 0, err
	}
	id := b.at(i)
	b.release()
	return id, nil
}

// IDs returns n different numbers, 1 to MaxIDs, in increasing order, or an error and none. The numbers
// of a sequence need not be neighbours.
func (g *Generator) IDs(ctx context.Context, n int) ([]uint64, error) {
	if n < 1 || n > MaxIDs {
		return nil, problems{fmt.Errorf("%w: %d", ErrCount, n)}
	}
	if err := g.usable(ctx); err != nil {
		return nil, err
	}
	ids := make([]uint64, n)
	if err := g.fill(ctx, ids); err != nil {
		return nil, err
	}
	if !slices.IsSorted(ids) {
		slices.Sort(ids)
	}
	for i := range ids[1:] {
		if ids[i] == ids[i+1] {
			return nil, problems{fmt.Errorf("%w: id %d twice, in two answers", ErrAnswer, ids[i])}
		}
	}
	return ids, nil
}

// fill fills ids, from the stock if there is one.
func (g *Generator) fill(ctx context.Context, ids []uint64) error {
	if g.stock != nil {
		rest, err := g.stock.take(ctx, ids)
		if err != errCrowd {
			return err
		}
		ids = rest
		defer g.stock.leave()
	}
	return g.many(ctx, ids)
}

// many fills ids in parts, of which two are asked for at a time.
func (g *Generator) many(ctx context.Context, ids []uint64) error {
	type part struct {
		ids []uint64
		b   *batch
		i   int
	}
	var before part
	for len(ids) > 0 || before.b != nil {
		var next part
		if len(ids) > 0 {
			next.ids = ids[:min(len(ids), g.most)]
			ids = ids[len(next.ids):]
			var err error
			if next.b, next.i, err = g.c.join(g, false, len(next.ids)); err != nil {
				return err
			}
		}
		if before.b != nil {
			if err := g.c.wait(ctx, before.b); err != nil {
				return err
			}
			before.b.copyTo(before.ids, before.i)
			before.b.release()
		}
		before = next
	}
	return nil
}

// Text returns an id of a kind that is text, such as a UUID. Of other kinds it returns the number as
// text.
func (g *Generator) Text(ctx context.Context) (string, error) {
	if err := g.usable(ctx); err != nil {
		return "", err
	}
	b, i, err := g.c.join(g, true, 1)
	if err == nil {
		err = g.c.wait(ctx, b)
	}
	if err != nil {
		return "", err
	}
	text := strings.Clone(textAt(b.texts, b.ends, i)) // not the whole batch's texts
	b.release()
	return text, nil
}

// usable is an error if a call makes no sense.
func (g *Generator) usable(ctx context.Context) error {
	if g.wrong != nil {
		return problems{g.wrong}
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	return nil
}
