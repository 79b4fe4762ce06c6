//go:build unix

package handover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A wire joins both sides of an upgrade in one process. One that is cut says io.EOF to whom it has nothing left to say.
type wire struct {
	toNew, toOld chan heard
	cutNew       chan struct{} // closed when the new process has closed its end, or died
	cutOld       chan struct{} // the same of the old one
	cutOnce      [2]sync.Once
}

func newWire() *wire {
	return &wire{toNew: make(chan heard, 100), toOld: make(chan heard, 100), cutNew: make(chan struct{}),
		cutOld: make(chan struct{})}
}

func (w *wire) dieNew() { w.cutOnce[0].Do(func() { close(w.cutNew) }) }
func (w *wire) dieOld() { w.cutOnce[1].Do(func() { close(w.cutOld) }) }

// over reports whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func copies(fds []int) (list []int) {
	for _, fd := range fds {
		c, err := syscall.Dup(fd)
		if err != nil {
			panic(err)
		}
		list = append(list, c)
	}
	return list
}

// A child is the old process's end of a wire.
type child struct {
	*wire
	deadline chan struct{} // closed when it is over
	once     sync.Once
	left     error       // what End says
	stop     func()      // kills the new process
	said     []os.Signal // to it
	killed   atomic.Int64
	onSend   func(m upgrade.Message) error
}

func (c *child) Send(m upgrade.Message, fds ...int) error {
	if c.onSend != nil {
		if err := c.onSend(m); err != nil {
			return err
		}
	}
	if over(c.cutNew) {
		return syscall.EPIPE
	}
	c.toNew <- heard{m, copies(fds), nil}
	return nil
}

func (c *child) Await(ctx context.Context, wanted upgrade.Kind) (upgrade.Message, error) {
	for {
		var m heard
		select {
		case m = <-c.toOld:
		default:
			select {
			case m = <-c.toOld:
			case <-c.cutNew:
				return upgrade.Message{}, errors.New("the new process ended")
			case <-c.deadline:
				return upgrade.Message{}, errors.New("late")
			case <-ctx.Done():
				return upgrade.Message{}, errors.New("late")
			}
		}
		switch m.Kind {
		case upgrade.Waiting:
			continue
		case upgrade.Refused:
			return upgrade.Message{}, fmt.Errorf("the new process refuses: %s", m.Why)
		case wanted:
			return m.Message, nil
		}
		return upgrade.Message{}, fmt.Errorf("said %s", m.Kind)
	}
}

func (c *child) Deadline(t time.Time) {
	if !t.IsZero() && t.Before(time.Now()) {
		c.once.Do(func() { close(c.deadline) })
	}
}
func (c *child) Flushed()           {}
func (c *child) Signal(s os.Signal) { c.said = append(c.said, s) }
func (c *child) Kill()              { c.killed.Add(1) }
func (c *child) Pid() int           { return 4711 }
func (c *child) End(ctx context.Context, served bool) error {
	c.stop()
	if c.left != nil {
		<-ctx.Done()
	}
	return c.left
}

// An origin is the new process's end.
type origin struct {
	*wire
	detached bool
}

func (o *origin) Send(m upgrade.Message, _ ...int) error {
	if over(o.cutOld) {
		return io.EOF
	}
	o.toOld <- heard{m, nil, nil}
	return nil
}

func (o *origin) Receive() (upgrade.Message, []int, error) {
	select {
	case m := <-o.toNew:
		return m.Message, m.fds, m.err
	default:
	}
	select {
	case m := <-o.toNew:
		return m.Message, m.fds, m.err
	case <-o.cutOld:
		return upgrade.Message{}, nil, io.EOF
	case <-o.cutNew:
		return upgrade.Message{}, nil, os.ErrClosed
	}
}
func (o *origin) Deadline(time.Time) {}
func (o *origin) Close() error {
	o.dieNew()
	return nil
}

func (o *origin) Detach() error {
	o.detached = true
	return nil
}

// A mover has connections. What it is told is noted in its process's list.
type mover struct {
	p      *process
	has    []server.Moved
	frozen error // what Freeze says
	adopts error // what Adopt says
	idle   int   // how often Adopt says first that it is idle
}

func (m *mover) Freeze(context.Context) ([]server.Moved, error) {
	m.p.note("freeze")
	if m.frozen != nil {
		return nil, m.frozen
	}
	given := m.has
	m.has = nil
	return given, nil
}

func (m *mover) Thaw(moved []server.Moved) error {
	m.p.note("thaw")
	m.has = moved
	return nil
}

func (m *mover) Adopt(c server.Moved) error {
	if m.idle > 0 {
		m.idle--
		return server.ErrIdle
	}
	if m.adopts == nil {
		m.has = append(m.has, c)
	}
	return m.adopts
}

// A process has what one side of an upgrade needs.
type process struct {
	keepsNone bool // of sequences
	t         *testing.T
	Config
	mover  *mover
	log    childprocess.Log
	done   []string
	resume error // what Resume says
	last   uint64
}

func (p *process) note(what string) { p.done = append(p.done, what) }

// descriptor returns an open file that stands for a socket.
func descriptor(t *testing.T) int {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// newProcess makes a process with a worker id that is recorded nowhere.
func newProcess(t *testing.T, succeeds bool) *process { return newProcessIn(t, "", succeeds) }

// newProcessIn makes one with a state directory.
func newProcessIn(t *testing.T, dir string, succeeds bool) *process {
	p := &process{t: t}
	p.mover = &mover{p: p}
	log := slog.New(slog.NewTextHandler(&p.log, nil))
	layout := generator.Katsubushi()
	h := windows.New(windows.Config{
		Log: log, WorkerIDs: []uint64{1}, Layout: layout, MaxRunAhead: time.Second, Succeeds: succeeds,
		StateDir: dir, AnyDisk: true,
	})
	if err := h.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Stop(true) })
	h.Start()
	p.Config = Config{
		Log: log, Version: "3.4.5", Fingerprint: layout.Fingerprint(), Windows: h, Mover: p.mover,
		Counters: "/here", Keeps: func() bool { return !p.keepsNone },
		Sockets: func() (list sockets.Passed, err error) {
			for i := range 300 { // more than a message holds
				list = append(list, sockets.Socket{Name: "port", FD: descriptor(t), Lent: i == 0})
			}
			return append(list, sockets.Socket{Name: "other", FD: descriptor(t)}), nil
		},
		Pause: func() { p.note("pause") },
		Resume: func(s sockets.Passed) error {
			p.note(fmt.Sprintf("resume %d", len(s)))
			return p.resume
		},
	}
	return p
}

// serving makes the process before an upgrade, with connections, and what it gives them away with.
func serving(t *testing.T) (*process, *Giver) { return servingFrom(newProcess(t, false)) }

func servingFrom(p *process) (*process, *Giver) {
	t := p.t
	<-p.Windows.Serving()
	time.Sleep(3 * time.Second)
	for i := range 600 {
		p.mover.has = append(p.mover.has, server.Moved{Port: "memcached", FD: descriptor(t), In: fmt.Append(nil, "in", i),
			Out: []byte("out"), State: []byte("state")})
	}
	g := NewGiver(p.Config)
	ctx, fail := context.WithCancelCause(context.Background())
	t.Cleanup(func() {
		fail(nil)
		closeMoved(p.mover.has)
	})
	g.Serves(ctx, fail)
	p.rises()
	return p, g
}

// rises issues an id above all before.
func (p *process) rises() {
	p.t.Helper()
	h := p.Windows
	run, err := h.Issuer.Source(0).Mint(id.At(h.Clock.Now()), 1, false)
	if err != nil || run.First <= p.last {
		p.t.Errorf("id %d after %d: %v", run.First, p.last, err)
	}
	p.last = run.First
}

// issues reports whether it issues ids.
func (p *process) issues() bool {
	_, err := p.Windows.Issuer.Source(0).Mint(id.At(p.Windows.Clock.Now()), 1, false)
	return err == nil
}

// open returns how many descriptors this process has.
func open(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(list)
}

// bubble runs a test in a synctest bubble after the layouts' epochs, and looks for descriptors that are left.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	before := open(t)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
		test(t)
	})
	if after := open(t); after != before {
		t.Errorf("%d descriptors, and %d before", after, before)
	}
}

// TestUpgrade: the new process has every connection, socket and worker id, and ids go on rising; the old one is told
// to stop and has nothing left.
func TestUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old, g := serving(t)
		w := newWire()
		c, o := &child{wire: w, deadline: make(chan struct{}), stop: w.dieNew}, &origin{wire: w}
		next := newProcess(t, true)
		next.mover.idle = 3
		old.keepsNone, next.Counters = true, "/there"
		taken := make(chan *Inherited, 1)
		go func() {
			in, err := Introduce(o)
			taker, e := Take(context.Background(), next.Config, in.From)
			if err != nil || e != nil {
				t.Error(err, e)
				return
			}
			if next.issues() != true || len(next.mover.has) != 0 {
				t.Error("before Serve the new process has a connection, or no worker id")
			}
			taker.Serve()
			taken <- in
		}()
		conns, got := slices.Clone(old.mover.has), Succession{}
		err := g.Upgrade(Upgrade{Start: func() (Child, error) { return c, nil }, Timeout: time.Minute,
			Succeeded: func(s Succession) { got = s }})
		if err != nil {
			t.Fatal(err)
		}
		in := <-taken
		if got.PID != 4711 || got.Program != "3.4.5" || got.Moved != 600 {
			t.Errorf("%+v", got)
		}
		if len(next.mover.has) != 600 {
			t.Fatalf("%d connections", len(next.mover.has))
		}
		for i, m := range next.mover.has {
			if m.Port != conns[i].Port || string(m.In) != string(conns[i].In) || string(m.Out) != "out" ||
				string(m.State) != "state" {
				t.Errorf("connection %d: %+v", i, m)
			}
		}
		if p := in.Passed(); len(p) != 301 || len(p.Named("port")) != 300 || !p.Lent("port") || p.Lent("other") {
			t.Errorf("%d sockets", len(in.Passed()))
		}
		next.last = old.last
		next.rises()
		if old.issues() || !g.End() || !errors.Is(context.Cause(g.ctx), ErrSucceeded) || !o.detached || len(c.said) != 0 {
			t.Errorf("the old process goes on: %v, %v", context.Cause(g.ctx), c.said)
		}
		if got := strings.Join(old.done, ", "); got != "pause, freeze" {
			t.Error(got)
		}
		if !strings.Contains(next.log.String(), `msg="took over" connections=600`) {
			t.Error(next.log.String())
		}
		w.dieOld()
		synctest.Wait()
		closeMoved(next.mover.has)
		in.Sockets.Close()
	})
}

// TestAnUpgradeThatFails: whatever the new process does, or does not, the old one serves as before.
func TestAnUpgradeThatFails(t *testing.T) {
	const none, all = "", "pause, freeze, resume 301, thaw"
	say := func(o *origin, m upgrade.Message) { o.Send(m) }
	ids := generator.Katsubushi().Fingerprint()
	hello := upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version, Fingerprint: ids}
	// until plays the new process up to a message of the old one.
	until := func(o *origin, kind upgrade.Kind) {
		for {
			m, fds, err := o.Receive()
			upgrade.CloseAll(fds)
			switch {
			case err != nil || m.Kind == kind:
				return
			case m.Kind == upgrade.Begin:
				say(o, hello)
			}
		}
	}
	with := func(change func(*upgrade.Message)) upgrade.Message {
		m := hello
		change(&m)
		return m
	}
	for _, c := range []struct {
		name   string
		change func(p *process, c *child)
		play   func(o *origin) // the new process
		says   string
		done   string
		lost   bool // connections are
	}{
		{"no sockets", func(p *process, _ *child) {
			p.Sockets = func() (sockets.Passed, error) { return nil, errors.New("too many open files") }
		}, func(*origin) {}, "too many open files", none, false},
		{"it dies at once", nil, func(o *origin) { o.Close() }, "the new process ended", none, false},
		{"it refuses", nil, func(o *origin) { Refuse(o, errors.New("no such layout")) }, "refuses: no such layout", none,
			false},
		{"it is silent", nil, func(*origin) {}, "late", none, false},
		{"it reads nothing", func(_ *process, c *child) {
			c.onSend = func(m upgrade.Message) error {
				if m.Kind == upgrade.Sockets {
					<-c.deadline
					return os.ErrDeadlineExceeded
				}
				return nil
			}
		}, func(*origin) {}, "late", none, false},
		{"it cannot be told", func(_ *process, c *child) {
			c.onSend = func(m upgrade.Message) error {
				if m.Kind == upgrade.Begin {
					return errors.New("broken pipe")
				}
				return nil
			}
		}, func(o *origin) { say(o, hello) }, "broken pipe", none, false},
		{"another version", nil, func(o *origin) {
			say(o, with(func(m *upgrade.Message) { m.Version = 9 }))
		}, "the new process speaks version 9 of the upgrade, this one 1: restart instead", none, false},
		{"other ids", nil, func(o *origin) {
			say(o, with(func(m *upgrade.Message) { m.Fingerprint = "x" }))
		}, "the ids of the new process have x, those of this one ", none, false},
		{"other sequences", nil, func(o *origin) {
			say(o, with(func(m *upgrade.Message) { m.Counters = "/there" }))
		}, "the new process has its sequences in /there, this one in /here, so values could repeat", none, false},
		{"nothing moves", func(p *process, _ *child) { p.mover.frozen = errors.New("busy") },
			func(o *origin) { until(o, upgrade.Take) }, "connections cannot be moved: busy", "pause, freeze, resume 301", false},
		{"it dies with all", nil, func(o *origin) {
			until(o, upgrade.Take)
			o.Close()
		}, "the new process ended", all, false},
		{"it takes nothing", func(_ *process, c *child) {
			c.onSend = func(m upgrade.Message) error {
				if m.Kind == upgrade.Moved {
					c.dieNew()
				}
				return nil
			}
		}, func(o *origin) { until(o, upgrade.Take) }, "the new process ended", all, false},
		{"it is never ready", nil, func(o *origin) { until(o, upgrade.Take) }, "late", all, false},
		{"it says something else", nil, func(o *origin) {
			until(o, upgrade.Take)
			say(o, upgrade.Message{Kind: upgrade.Serving})
		}, "said serving", all, false},
		{"it dies when it is to serve", nil, func(o *origin) {
			until(o, upgrade.Take)
			say(o, upgrade.Message{Kind: upgrade.Ready})
			until(o, upgrade.Serve)
			o.Close()
		}, "600 connections are lost: the new process ended", all, true},
		{"it never serves", nil, func(o *origin) {
			until(o, upgrade.Take)
			say(o, upgrade.Message{Kind: upgrade.Ready})
			until(o, upgrade.Serve)
		}, "600 connections are lost: late", all, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				old, g := serving(t)
				w := newWire()
				link := &child{wire: w, deadline: make(chan struct{}), stop: w.dieNew}
				if c.change != nil {
					c.change(old, link)
					g.c = old.Config
				}
				go func() {
					c.play(&origin{wire: w})
					for m := range w.toNew { // nobody else closes what it was sent
						upgrade.CloseAll(m.fds)
					}
				}()
				err := g.Upgrade(Upgrade{Start: func() (Child, error) { return link, nil }, Timeout: 20 * time.Second,
					Succeeded: func(Succession) { t.Error("it succeeded") },
					Failed: func(error) {
						next := g.Upgrade(Upgrade{Start: func() (Child, error) { return nil, errors.New("no program") }})
						if next == nil || errors.Is(next, errUnderWay) {
							t.Errorf("whoever is told cannot try again at once: %v", next)
						}
					}})
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %s", err, c.says)
				}
				if got := strings.Join(old.done, ", "); got != c.done {
					t.Errorf("%s, want %s", got, c.done)
				}
				if n := len(old.mover.has); n != 600 && !c.lost || n != 0 && c.lost {
					t.Errorf("%d connections", n)
				}
				if !over(w.cutNew) {
					t.Error("the new process was not killed")
				}
				time.Sleep(time.Minute)
				if strings.Contains(old.log.String(), "no client gets an answer") {
					t.Error(old.log.String())
				}
				old.rises()
				if context.Cause(g.ctx) != nil || g.End() {
					t.Errorf("the old process stops: %v", context.Cause(g.ctx))
				}
				close(w.toNew)
			})
		})
	}
}

// TestAStopDuringAnUpgrade: while something of the new process is left, the old one does not serve again. If it was
// never paused, it just stops.
func TestAStopDuringAnUpgrade(t *testing.T) {
	for _, paused := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			old, g := serving(t)
			w := newWire()
			link := &child{wire: w, deadline: make(chan struct{}), stop: w.dieNew, left: errors.New("it has not ended")}
			link.onSend = func(m upgrade.Message) error {
				if paused == (m.Kind == upgrade.Take) {
					w.dieNew()
				}
				return nil
			}
			if paused {
				w.toOld <- heard{Message: upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version,
					Fingerprint: old.Fingerprint}}
			}
			ended := make(chan error, 1)
			var told atomic.Int64
			go func() {
				ended <- g.Upgrade(Upgrade{Start: func() (Child, error) { return link, nil }, Timeout: time.Hour,
					Failed: func(err error) {
						if told.Add(1); !strings.Contains(err.Error(), "the new process ended") {
							t.Errorf("whoever asked is told: %v", err)
						}
					}})
			}()
			time.Sleep(time.Minute)
			if err := g.Upgrade(Upgrade{}); !errors.Is(err, errUnderWay) {
				t.Errorf("a second upgrade: %v", err)
			}
			if n := told.Load(); n != map[bool]int64{true: 0, false: 1}[paused] {
				t.Errorf("paused=%v: whoever asked was told %d times while the new process is ending", paused, n)
			}
			if g.Abandon(); link.killed.Load() != 1 {
				t.Error("the new process goes on")
			}
			g.fail(context.Canceled)
			err := <-ended
			if err == nil || !strings.HasPrefix(err.Error(), "this daemon is being stopped: ") ||
				!strings.HasSuffix(err.Error(), "it has not ended") {
				t.Error(err)
			}
			if got := slices.Contains(old.done, "thaw") || slices.Contains(old.done, "resume 301"); got {
				t.Error("it serves beside a process that may serve")
			}
			if n := told.Load(); n != 1 {
				t.Errorf("whoever asked was told %d times", n)
			}
			if said := strings.Contains(old.log.String(), "no client gets an answer until the new process"); said != paused {
				t.Errorf("paused=%v: %s", paused, old.log.String())
			}
			if g.End() != paused || old.issues() == paused {
				t.Errorf("paused=%v: it is retired, or not", paused)
			}
			close(w.toNew)
			for m := range w.toNew {
				upgrade.CloseAll(m.fds)
			}
		})
	}
}

// TestASignalDuringAnUpgrade: whoever stops the old process means both, and whoever makes it reload, too.
func TestASignalDuringAnUpgrade(t *testing.T) {
	signal(t, os.Interrupt, func(g *Giver, sent upgrade.Kind) {
		if sent == upgrade.Serve {
			g.fail(context.Canceled)
		}
	})
	for _, when := range []upgrade.Kind{upgrade.Begin, upgrade.Take, upgrade.Serve} {
		signal(t, syscall.SIGHUP, func(g *Giver, sent upgrade.Kind) {
			if sent == when {
				g.Reloads()
			}
		})
	}
	signal(t, nil, func(*Giver, upgrade.Kind) {})
}

// signal makes an upgrade in which the old process has a signal to pass on; nil = none.
func signal(t *testing.T, want os.Signal, sends func(g *Giver, sent upgrade.Kind)) {
	bubble(t, func(t *testing.T) {
		old, g := serving(t)
		g.Reloads() // before the upgrade
		w := newWire()
		link := &child{wire: w, deadline: make(chan struct{}), stop: w.dieNew}
		link.onSend = func(m upgrade.Message) error {
			sends(g, m.Kind)
			return nil
		}
		for _, k := range []upgrade.Kind{upgrade.Hello, upgrade.Ready, upgrade.Serving} {
			w.toOld <- heard{Message: upgrade.Message{Kind: k, Version: upgrade.Version, Fingerprint: old.Fingerprint}}
		}
		err := g.Upgrade(Upgrade{Start: func() (Child, error) { return link, nil }, Timeout: time.Minute,
			Succeeded: func(Succession) {}})
		if list := append(link.said, nil); err != nil || list[0] != want || len(list) > 2 {
			t.Errorf("%v, %v; want %v", err, link.said, want)
		}
		close(w.toNew)
		for m := range w.toNew {
			upgrade.CloseAll(m.fds)
		}
	})
}

// TestNoTimeForAnUpgrade: before a process serves, after it, and while it lacks a worker id.
func TestNoTimeForAnUpgrade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := newProcess(t, false)
		g := NewGiver(p.Config)
		start := Upgrade{Start: func() (Child, error) { return nil, errors.New("it was started") }}
		if err := g.Upgrade(start); !errors.Is(err, errNotServing) {
			t.Error(err)
		}
		g.Abandon()
		ctx, fail := context.WithCancelCause(context.Background())
		g.Serves(ctx, fail)
		for p.Windows.Lanes()[0].State == workerid.Serving {
			t.Fatal("it has a window at once")
		}
		if err := g.Upgrade(start); err == nil || !strings.HasPrefix(err.Error(), "lane 0 is ") ||
			!strings.HasSuffix(err.Error(), ": upgrade when all worker ids are held") {
			t.Error(err)
		}
		<-p.Windows.Serving()
		if err := g.Upgrade(start); err == nil || err.Error() != "it was started" {
			t.Error(err)
		}
		fail(context.Canceled)
		if err := g.Upgrade(start); !errors.Is(err, errNotServing) {
			t.Error(err)
		}
		if g.End() {
			t.Error("it is retired")
		}
		if err := g.Upgrade(start); !errors.Is(err, errUnderWay) {
			t.Errorf("after End: %v", err)
		}
	})
}

// TestTheWindowsCannotBeTakenBack: without its state directory a process stops, and says why.
func TestTheWindowsCannotBeTakenBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	bubble(t, func(t *testing.T) {
		old, g := servingFrom(newProcessIn(t, dir, false))
		conns := slices.Clone(old.mover.has)
		w := newWire()
		link := &child{wire: w, deadline: make(chan struct{}), stop: w.dieNew}
		link.onSend = func(m upgrade.Message) error {
			if m.Kind == upgrade.Take {
				w.dieNew()
				return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
			}
			return nil
		}
		w.toOld <- heard{Message: upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version,
			Fingerprint: old.Fingerprint}}
		if err := g.Upgrade(Upgrade{Start: func() (Child, error) { return link, nil }, Timeout: time.Minute}); err == nil {
			t.Error("it succeeded")
		}
		if err := context.Cause(g.ctx); err == nil || !strings.HasPrefix(err.Error(), "after an upgrade that failed: ") {
			t.Error(err)
		}
		if got := strings.Join(old.done, ", "); got != "pause, freeze" {
			t.Errorf("it serves without worker ids: %s", got)
		}
		close(w.toNew)
		for m := range w.toNew {
			upgrade.CloseAll(m.fds)
		}
		closeMoved(conns) // they are the process's until it ends
	})
}

// TestNothingCanBeTakenBack: then the process stops, and says why.
func TestNothingCanBeTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		old, g := serving(t)
		old.resume = errors.New("address in use")
		conns := slices.Clone(old.mover.has)
		w := newWire()
		link := &child{wire: w, deadline: make(chan struct{}), stop: w.dieNew}
		hello := upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version, Fingerprint: old.Fingerprint}
		w.toOld <- heard{Message: hello}
		if err := g.Upgrade(Upgrade{Start: func() (Child, error) { return link, nil }, Timeout: time.Minute}); err == nil {
			t.Error("it succeeded")
		}
		if err := context.Cause(g.ctx); err == nil || err.Error() != "after an upgrade that failed: address in use" {
			t.Error(err)
		}
		close(w.toNew)
		for m := range w.toNew {
			upgrade.CloseAll(m.fds)
		}
		closeMoved(conns) // they are the process's until it ends
	})
}
