package static_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/mount"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// An office is what operators see of a directory on a real disk, and a daemon there.
type office struct {
	*world
	store   *static.Store
	held    workerid.Grant
	anyDisk bool
	layout  string
	layouts map[string]string // by name
}

// say leaves out of a text what differs from run to run.
func (o *office) say(text string) string {
	var old []string
	for name, layout := range o.layouts {
		old = append(old, layout, name)
	}
	if id := static.MachineID(); id != "" {
		old = append(old, id, "THIS")
	}
	return strings.NewReplacer(old...).Replace(o.bare(text))
}

func (o *office) failed(err error) string {
	if lowered, ok := errors.AsType[*static.LoweredError](err); ok {
		return o.say(fmt.Sprintf("lowered by %v from %d: %v", lowered.By(), lowered.From.UnixMilli()-t0, err))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "not there"
	}
	said := err.Error()
	for _, kind := range []error{static.ErrInUse, static.ErrDamaged, static.ErrOtherMachine, workerid.ErrNoID,
		workerid.ErrForeignPool} {
		if errors.Is(err, kind) {
			said += "\nis: " + kind.Error()
		}
	}
	return o.say(said)
}

func (o *office) info(i static.Info, err error) string {
	if err = errors.Join(err, i.Err); err != nil {
		return o.failed(err)
	}
	if i.Machine == static.MachineID() {
		i.Machine = "THIS"
	}
	return o.say(fmt.Sprintf("%s: worker id %d, written %d times, mark %d, %s, on %q, damage %q", i.Path, i.Worker,
		i.Generation, i.HighWater.UnixMilli()-t0, i.Fingerprint, i.Machine, i.Damage))
}

func (o *office) inspect() string {
	all, err := static.Inspect(o.dir)
	if err != nil {
		return o.failed(err)
	}
	var lines []string
	for _, i := range all {
		lines = append(lines, o.info(i, nil))
	}
	return strings.Join(lines, "\n")
}

// open opens a daemon's Store, on another machine if a name says so.
func (o *office) open(worker uint64, machine ...string) string {
	c := o.config(worker)
	c.Fingerprint, c.AnyDisk = o.layouts[o.layout], o.anyDisk
	if c.Machine = static.MachineID(); len(machine) > 0 {
		c.Machine = machine[0]
	}
	s, err := static.Open(c)
	if err != nil {
		return o.failed(err)
	}
	o.store = s
	return o.acquire(worker, worker)
}

func (o *office) acquire(least, most uint64) string {
	g, err := o.store.Acquire(ctx, workerid.Request{Owner: "me", Min: least, Max: most})
	if err != nil {
		return o.failed(err)
	}
	o.held = g
	return fmt.Sprintf("from %d", g.Lo-t0)
}

// TestOperators: times are ms after the id clock, which stands still.
func TestOperators(t *testing.T) {
	steps.Run(t, "testdata/operators.txt", func(t *testing.T) steps.Calls {
		o := &office{world: newWorld(t), layout: "LAYOUT", layouts: map[string]string{"LAYOUT": fingerprint,
			"ANOTHER": generator.Twitter().Fingerprint(), "with spaces": "with spaces"}}
		t.Cleanup(func() {
			if o.store != nil {
				o.store.Close()
			}
		})
		in := func(name string) string { return filepath.Join(o.dir, name) }
		return steps.Calls{
			"move-to": func(dir string) { o.dir = in(dir) },
			"mkdir":   func() error { return os.Mkdir(o.dir, 0o700) },
			"inspect": o.inspect,
			"adopt":   func(worker uint64, now int64) string { return o.info(static.Adopt(o.dir, worker, t0+now)) },
			"reset": func(worker uint64, mark int64, layout string, force ...string) string {
				return o.info(static.Reset(o.dir, worker, t0+mark, o.layouts[layout], slices.Contains(force, "force")))
			},
			"layout":  func(name string) { o.layout = name },
			"open":    o.open,
			"acquire": o.acquire,
			// open-all opens a Store of several, and closes it
			"open-all": func(workers ...uint64) string {
				s, err := static.Open(o.config(workers...))
				if err != nil {
					return o.failed(err)
				}
				return fmt.Sprint(s.Close())
			},
			"log": o.logged,
			"mv":  func(from, to string) error { return os.Rename(in(from), in(to)) },
			"extend": func() (string, error) {
				o.pass(500)
				g, err := extendOne(ctx, o.store, o.held)
				return fmt.Sprintf("to %d", g.Hi-t0), err
			},
			"small":    func(size string) { o.dir = mount.Small(t, size) },
			"any-disk": func() { o.anyDisk = true },
			"fill":     func() { fill(t, o.dir) },
			"unfill":   func() error { return os.Remove(in("filler")) },
			"ls": func(pattern string) (string, error) {
				all, err := filepath.Glob(in(pattern))
				return o.say(strings.Join(all, "\n")), err
			},
			"close": func() error { return o.store.Close() },
			"needs-identity": func() {
				if static.MachineID() == "" {
					t.Skip("this machine has no identity")
				}
			},
			"write": func(name, text string) error { return os.WriteFile(in(name), []byte(text), 0o600) },
			"damage": func(name string, at int64) error {
				f, err := os.OpenFile(in(name), os.O_RDWR, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte{0}, at)
				return errors.Join(err, f.Close())
			},
			"cut": func(name string, to int64) error { return os.Truncate(in(name), to) },
		}
	})
}
