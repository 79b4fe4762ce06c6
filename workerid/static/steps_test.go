package static_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/test/steps"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

const (
	near = 2000          // ms that windows reach beyond the present
	far  = near + 28_000 // and marks, where the next run need not wait for them
)

// remembering is a world on a simulated disk, with memory that outlives processes.
func remembering(t *testing.T) (*world, *crashdisk.Disk, *crashdisk.Memory) {
	w, disk, memory := newWorld(t), &crashdisk.Disk{}, &crashdisk.Memory{}
	w.disk, w.memory = disk, memory
	return w, disk, memory
}

// generate makes the generator of a window.
func generate(t *testing.T, s *static.Store, g workerid.Grant) *generator.Snowflake {
	t.Helper()
	ids, err := generator.NewSnowflake(generator.Options{Layout: generator.Katsubushi(), Worker: 7, Lo: g.Lo, Hi: g.Hi,
		Word: s.Word(7, g.Lo)})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func mark(t *testing.T, disk *crashdisk.Disk) int64 {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "worker-7.state"), disk.Read("worker-7.state"), 0o600); err != nil {
		t.Fatal(err)
	}
	return inspectOne(t, dir).HighWater.UnixMilli()
}

// A memory that hands out the same page again, which no memory may.
type samePage struct {
	static.Memory
	page static.Page
}

func (m *samePage) Make(nonce string, issued int64) (_ static.Page, err error) {
	if m.page.Word == nil {
		m.page, err = m.Memory.Make(nonce, issued)
	}
	return m.page, err
}

// A scene has processes of worker id 7, one after another or side by side, on a simulated disk.
type scene struct {
	*world
	t      *testing.T
	disk   *crashdisk.Disk
	seen   *crashdisk.Watched // the disk, as processes have it
	memory *crashdisk.Memory
	runs   map[string]*process
	kept   map[string]string // contents of files
	then   *crashdisk.Memory
	last   int64  // position of the last id
	said   string // by what was done in the middle of a step
}

// A process has a Store, and the generator of its window if it issues ids.
type process struct {
	*static.Store
	grant workerid.Grant
	ids   *generator.Snowflake
}

// acquire says from when to when a window is, from now.
func (s *scene) acquire(name string) (string, error) {
	p := s.runs[name]
	g, err := p.Acquire(ctx, one)
	if err != nil {
		return "", s.told(err)
	}
	p.grant, p.ids = g, nil
	return s.window(p), nil
}

func (s *scene) window(p *process) string {
	return fmt.Sprintf("from %d to %d ms", p.grant.Lo-s.id, p.grant.Hi-s.id)
}

var nonces = regexp.MustCompile(`-[A-Z0-9]{26}|[.][0-9a-f]+-[0-9a-f]+[.]tmp`)

// bare leaves the directory, nonces and names of locks out of a text.
func (w *world) bare(text string) string {
	return nonces.ReplaceAllStringFunc(strings.ReplaceAll(text, w.dir, "DIR"), func(s string) string {
		return s[:1] + "..."
	})
}

// told is an error as it is written down.
func (w *world) told(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(w.bare(err.Error()))
}

// open starts a process.
func (s *scene) open(name string) error {
	store, err := static.Open(s.config(7))
	if err != nil {
		return s.told(err)
	}
	s.t.Cleanup(func() { store.Close() })
	s.runs[name] = &process{Store: store}
	return nil
}

func (s *scene) extend(name string) (string, error) {
	p := s.runs[name]
	patience, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	g, err := extendOne(patience, p, p.grant)
	if err != nil {
		return "", s.told(err)
	}
	if p.ids != nil && g.Hi > p.grant.Hi {
		if err := p.ids.Extend(p.grant.Hi+1, g.Hi); err != nil {
			return "", err
		}
	}
	p.grant = g
	return s.window(p), nil
}

// goOn extends every 500 ms for a while.
func (s *scene) goOn(name string, ms int64) (said string, err error) {
	for range ms / 500 {
		s.pass(500)
		if said, err = s.extend(name); err != nil {
			return "", err
		}
	}
	return said, nil
}

// issue makes a generator if there is none, and takes an id of the present.
func (s *scene) issue(name string) error {
	p := s.runs[name]
	if p.ids == nil {
		p.ids = generate(s.t, p.Store, p.grant)
	}
	_, err := p.ids.Take(s.id, s.id, 1)
	s.last = max(s.last, p.ids.Position())
	return err
}

// run is a process that has just issued an id, once its window lay around the present.
func (s *scene) run(name string) error {
	if err := s.open(name); err != nil {
		return err
	}
	if _, err := s.acquire(name); err != nil {
		return err
	}
	p := s.runs[name]
	p.ids = generate(s.t, p.Store, p.grant)
	for p.grant.Hi < s.id+1000 || p.grant.Lo > s.id {
		if _, err := s.goOn(name, 500); err != nil {
			return err
		}
	}
	return s.issue(name)
}

// busy is a process that has issued all that it may at the present, so that its last ids are ahead of the clock.
func (s *scene) busy(name string) error {
	if err := s.run(name); err != nil {
		return err
	}
	p := s.runs[name]
	for _, err := s.goOn(name, 500); err == nil; {
		_, err = p.ids.Take(s.id, s.id+1000, 1<<12)
	}
	s.last = p.ids.Position()
	return nil
}

// record is the mark of the state file, from now.
func (s *scene) record() string { return fmt.Sprintf("mark %d ms from now", mark(s.t, s.disk)-s.id) }

// word writes a position into the word of a process, ms from now.
func (s *scene) word(name string, ms int64) {
	p := s.runs[name]
	p.Word(7, p.grant.Lo).Store(uint64(s.id+ms-generator.Katsubushi().Epoch) << 12)
}

// fail makes operations of the disk fail whose names begin so.
func (s *scene) fail(prefix, with string) {
	err := map[string]error{"EIO": syscall.EIO, "ENOSPC": syscall.ENOSPC, "power": errPower}[with]
	s.disk.Fault = func(op string) error {
		if strings.HasPrefix(op, prefix) {
			return err
		}
		return nil
	}
}

// failAfter is fail from the first operation on whose name begins with another prefix.
func (s *scene) failAfter(first, prefix, with string) {
	s.disk.Fault = func(op string) error {
		if strings.HasPrefix(op, first) {
			s.fail(prefix, with)
		}
		return nil
	}
}

// logged are the messages since the last time, each once.
func (w *world) logged() string {
	var b strings.Builder
	for line := range strings.Lines(w.log.String()) {
		_, line, _ = strings.Cut(line, " level=")
		if line = w.bare(line); !strings.Contains(b.String(), line) {
			b.WriteString(line)
		}
	}
	w.log.Reset()
	return b.String()
}

func (s *scene) trace() string {
	ops := s.disk.Trace
	s.disk.Trace = nil
	return strings.Join(ops, "\n")
}

// TestProcesses: what processes of one worker id are granted, whatever becomes of their files, of the memory that
// outlives them, and of clocks.
func TestProcesses(t *testing.T) {
	for _, path := range []string{"testdata/processes.txt", "testdata/restored.txt"} {
		steps.Run(t, path, func(t *testing.T) steps.Calls {
			s := &scene{t: t, runs: map[string]*process{}, kept: map[string]string{}}
			s.world, s.disk, s.memory = remembering(t)
			s.seen = &crashdisk.Watched{Disk: s.disk}
			s.world.disk = s.seen
			calls := s.calls()
			// at OPERATION STEP, STEP: a process is stopped before its next operation that begins so, while this is done
			calls["at"] = func(operation string, then ...string) {
				s.seen.Before = func(next string) error {
					if !strings.HasPrefix(next, operation) {
						return nil
					}
					s.seen.Before = nil
					for step := range strings.SplitSeq(strings.Join(then, " "), ", ") {
						s.said += calls.Do(t, strings.Fields(step))
					}
					return nil
				}
			}
			calls[""] = func() (said string) {
				said, s.said = s.said, ""
				return said
			}
			return calls
		})
	}
}

func (s *scene) calls() steps.Calls {
	return steps.Calls{
		"no-memory": func() { s.world.memory = nil },
		"share":     func() { s.share = true },
		"pass":      s.pass,
		"id-clock":  func(ms int64) { s.id += ms },
		"wall":      func(ms int64) { s.clocks.Wall += ms },
		"set-clock": func(ms int64) {
			s.id += ms
			s.clocks.Wall += ms
		},
		"boot": func(id string, since int64) { s.clocks.BootID, s.clocks.Boot = id, since },

		"open":    s.open,
		"acquire": s.acquire,
		"extend":  s.extend,
		"go-on":   s.goOn,
		"gain": func(name string, ms int64) (said string, err error) { // is go-on by a clock that is set
			for range ms / 500 {
				s.id += 50
				s.clocks.Wall += 50
				if said, err = s.goOn(name, 500); err != nil {
					break
				}
			}
			return said, err
		},
		"issue": s.issue,
		"unwritten": func(name string) string {
			c := s.runs[name].Figures(nil)
			return fmt.Sprintf("%v, %v left", c.Unwritten, c.Left)
		},
		"run":  s.run,
		"busy": s.busy,
		"stop": func(name string) error { // cleanly
			p := s.runs[name]
			return errors.Join(p.Release(ctx, p.grant, p.ids.Seal()), p.Close())
		},
		"kill": func(name string) error { return s.told(s.runs[name].Close()) },
		"release": func(name string, last int64) error {
			patience, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return s.told(s.runs[name].Release(patience, s.runs[name].grant, s.id+last))
		},
		"canceled": func(name string) (acquire, extend error) {
			canceled, cancel := context.WithCancel(ctx)
			cancel()
			_, acquire = s.runs[name].Acquire(canceled, one)
			_, extend = s.runs[name].Extend(canceled, nil)
			return acquire, extend
		},
		"generate": func(name string) { s.runs[name].ids = generate(s.t, s.runs[name].Store, s.runs[name].grant) },
		"seal":     func(name string) { s.runs[name].ids.Seal() },
		"has-word": func(name string, worker uint64, from int64) bool {
			return s.runs[name].Word(worker, s.runs[name].grant.Lo+from) != nil
		},
		"last-id": func() string { return fmt.Sprintf("%d ms from now", s.last-s.id) },
		"word":    s.word,
		"empty-word": func(name string) { // as releases before left it
			s.runs[name].Word(7, s.runs[name].grant.Lo).Store(1 << 63)
		},

		"record":   s.record,
		"trace":    s.trace,
		"log":      s.logged,
		"remove":   s.disk.Remove,
		"move":     func(from, to string) error { return s.disk.Rename(from, to) },
		"keep":     func(name string) { s.kept[name] = string(s.disk.Read(name)) },
		"put-back": func(name string) { s.disk.Write(name, []byte(s.kept[name])) },
		"is-kept":  func(name string) bool { return s.kept[name] == string(s.disk.Read(name)) },
		// the copies of the file are two halves
		"put-back-copy": func(name string, i int) {
			b := s.disk.Read(name)
			copy(b[i*len(b)/2:(i+1)*len(b)/2], s.kept[name][i*len(b)/2:])
			s.disk.Write(name, b)
		},
		"fail":       s.fail,
		"fail-after": s.failAfter,
		"work":       func() { s.disk.Fault = nil },
		// from now on writes wait until the disk answers, which says how many did
		"stall":  func() { s.stalls, s.disk.Trace = true, nil },
		"answer": s.answer,

		"lose-memory":      s.memory.Lose,
		"keep-memory":      func() { s.then = s.memory.At() },
		"put-back-memory":  func() { *s.memory = *s.then },
		"copy-memory":      func() { s.memory.PutBack(s.memory.At()) },
		"overwrite-memory": func() { s.memory.Overwrite(s.then) },
		"same-page":        func() { s.world.memory = &samePage{Memory: s.memory} },
		"another-page":     func() { s.world.memory.(*samePage).page = static.Page{} },
		"memory-is-full":   func() { s.memory.Fault = func() error { return syscall.ENOSPC } },
		"memory-works":     func() { s.memory.Fault = nil },
	}
}
