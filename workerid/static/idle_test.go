package static_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A trio is a Store that holds the worker ids 7, 8 and 9. Its directory may lie on a file system of a kind, and has a
// Version only while that is certain.
type trio struct {
	*world
	crashdisk.Watched
	kind      string
	uncertain bool
	store     *static.Store
	held      []workerid.Grant
	readings  int // of all clocks

	me               string // the goroutine that extends
	looks, elsewhere atomic.Int64
	others           chan struct{} // the looks at the others' files, while the first one waits for them
}

func (d *trio) Prepare(string) (string, error) { return d.kind, nil }

func (d *trio) Version(dir string) durable.Version {
	if d.uncertain {
		return durable.Version{}
	}
	return d.Watched.Version(dir)
}

func goroutine() string {
	b := make([]byte, 64)
	b, _, _ = bytes.Cut(b[:runtime.Stack(b, false)], []byte(" ["))
	return string(b)
}

// before sees what is done to the disk.
func (d *trio) before(op string) error {
	if strings.HasPrefix(op, "is") {
		if d.looks.Add(1); goroutine() != d.me {
			d.elsewhere.Add(1)
		}
	}
	switch {
	case d.others == nil:
	case op == "open worker-7.lock":
		<-d.others
		<-d.others
	case op == "is worker-8.state", op == "is worker-9.state":
		d.others <- struct{}{}
	}
	return nil
}

func (d *trio) begin(t *testing.T) (err error) {
	d.world.disk, d.memory = d, &crashdisk.Memory{}
	c := d.config(7, 8, 9)
	c.AnyDisk = true
	c.Clocks = func() static.Clocks {
		d.readings++
		return d.clocks
	}
	if d.store, err = static.Open(c); err != nil {
		return err
	}
	t.Cleanup(func() { d.store.Close() })
	for id := uint64(7); id <= 9; id++ {
		d.held = append(d.held, mustAcquire(t, d.store, workerid.Request{Owner: "me", Min: id, Max: id}))
	}
	return nil
}

// extend says up to when windows are, of which worker ids they are lost, and how often files were looked at and clocks
// were read for that, if none is lost: else that differs.
func (d *trio) extend() (string, error) {
	d.pass(100)
	d.me = goroutine()
	d.looks.Store(0)
	d.elsewhere.Store(0)
	before, lost := d.readings, ""
	results, err := d.store.Extend(ctx, d.held)
	for i, r := range results {
		if r.Err != nil {
			lost += fmt.Sprintf("%d: %s\n", d.held[i].Worker, d.bare(r.Err.Error()))
		} else if d.held[i].Hi = r.Grant.Hi; r.Grant.Hi != d.id+near {
			lost += fmt.Sprintf("%d: to %d ms\n", d.held[i].Worker, r.Grant.Hi-d.id)
		}
	}
	if err != nil || lost != "" {
		return lost, err
	}
	return fmt.Sprintf("%d looks at locks and files, %d of other goroutines, %d readings of all clocks", d.looks.Load(),
		d.elsewhere.Load(), d.readings-before), nil
}

// TestIdle: what extensions cost that need nothing.
func TestIdle(t *testing.T) {
	steps.Run(t, "testdata/idle.txt", func(t *testing.T) steps.Calls {
		d := &trio{world: newWorld(t), Watched: crashdisk.Watched{Disk: &crashdisk.Disk{}}}
		d.Before = d.before
		return steps.Calls{
			"begin": func(kind ...string) error {
				d.kind = strings.Join(kind, "")
				return d.begin(t)
			},
			"extend":    d.extend,
			"uncertain": func() { d.uncertain = true },
			"certain":   func() { d.uncertain = false },
			"make": func(name string) error {
				f, err := d.Open(name, true)
				if err != nil {
					return err
				}
				return f.Close()
			},
			"remove": d.Remove,
			// from now on the lock of worker id 7 cannot be opened before the files of the others are looked at
			"wait-for-others": func() { d.others = make(chan struct{}, 2) },
		}
	})
}
