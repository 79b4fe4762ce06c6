//go:build unix

package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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
	"github.com/katsubushi/katsubushi/v3/test/steps"
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
	*scene
	deadline chan struct{} // closed when it is over
	once     sync.Once
	timer    *time.Timer
	hears    bool // what is said reaches the new process
}

func (c *child) Send(m upgrade.Message, fds ...int) error {
	c.heard(m)
	if err := c.happens(m.Kind); err != nil {
		return err
	}
	if over(c.cutNew) {
		return syscall.EPIPE
	}
	if c.hears {
		c.toNew <- heard{m, copies(fds), nil}
	}
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
	if c.timer != nil {
		c.timer.Stop()
	}
	if !t.IsZero() {
		c.timer = time.AfterFunc(time.Until(t), func() { c.once.Do(func() { close(c.deadline) }) })
	}
}

func (c *child) Flushed()           {}
func (c *child) Signal(s os.Signal) { c.note("signal: %v", s) }
func (c *child) Kill()              { c.note("killed") }
func (c *child) Pid() int           { return 4711 }
func (c *child) End(ctx context.Context, served bool) error {
	c.note("the new process is ended, which has served: %v", served)
	c.dieNew()
	if c.broken["end"] != nil {
		<-ctx.Done()
	}
	return c.broken["end"]
}

// An origin is the new process's end.
type origin struct{ *scene }

func (o *origin) Send(m upgrade.Message, _ ...int) error {
	if over(o.cutOld) {
		return io.EOF
	}
	o.heard(m)
	if err := o.happens(m.Kind); err != nil {
		return err
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
	o.note("detached")
	return nil
}

// A mover has connections. What it is told is noted in its process's list.
type mover struct {
	p     *process
	has   []server.Moved
	given []server.Moved
	idle  int // how often Adopt says first that it is idle
}

// String tells how many connections there are, and the first and the last one.
func (m *mover) String() string {
	text := fmt.Sprint(len(m.has), " connections")
	for i, c := range m.has {
		if i == 0 || i == len(m.has)-1 {
			text += fmt.Sprintf(" %s:%s:%s:%s", c.Port, c.In, c.Out, c.State)
		}
	}
	return text
}

func (m *mover) Freeze(context.Context) ([]server.Moved, error) {
	m.p.note("freeze")
	if err := m.p.broken["freeze"]; err != nil {
		return nil, err
	}
	m.given, m.has = m.has, nil
	return m.given, nil
}

func (m *mover) Thaw(moved []server.Moved) error {
	m.p.note("thaw %d", len(moved))
	m.has = moved
	return nil
}

func (m *mover) Adopt(c server.Moved) error {
	if m.idle > 0 {
		m.idle--
		return server.ErrIdle
	}
	if m.p.broken["adopt"] == nil {
		m.has = append(m.has, c)
	}
	return m.p.broken["adopt"]
}

// A process has what one side of an upgrade needs.
type process struct {
	keepsNone bool // of sequences
	t         *testing.T
	Config
	mover  *mover
	log    *childprocess.Log // and what is noted
	broken map[string]error  // what fails
	last   uint64
}

func (p *process) note(format string, args ...any) { fmt.Fprintf(p.log, format+"\n", args...) }

// descriptor returns an open file that stands for a socket.
func descriptor(t *testing.T) int {
	fd, err := syscall.Open(os.DevNull, syscall.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// newProcess makes a process with a worker id that is recorded in a directory, or nowhere, or leased from a store.
func newProcess(t *testing.T, dir string, succeeds bool, lease *store) *process {
	p := &process{t: t, log: new(childprocess.Log), broken: map[string]error{}}
	p.mover = &mover{p: p}
	log := slog.New(slog.NewTextHandler(p.log, nil))
	layout := generator.Katsubushi()
	c := windows.Config{
		Log: slog.New(slog.DiscardHandler), WorkerIDs: []uint64{1}, Layout: layout, MaxRunAhead: time.Second,
		StateDir: dir, AnyDisk: true, Succeeds: succeeds,
	}
	if lease != nil {
		c.WorkerIDs, c.Lanes = nil, 1
		c.Store = windows.Store{Min: 5, Max: 5, Lease: time.Minute, Heartbeat: 30 * time.Second,
			Open: func(now func() int64, _ string) (workerid.Backend, error) {
				lease.now = now
				return lease, nil
			}}
	}
	h := windows.New(c)
	if err := h.Open(); err != nil {
		t.Fatal(err)
	}
	h.Start()
	p.Config = Config{
		Log: log, Version: "3.4.5", Fingerprint: layout.Fingerprint(), Windows: h, Mover: p.mover,
		Counters: "/here", Keeps: func() bool { return !p.keepsNone },
		Sockets: func() (list sockets.Passed, err error) {
			if err := p.broken["sockets"]; err != nil {
				return nil, err
			}
			for i := range 200 { // more than a message holds
				list = append(list, sockets.Socket{Name: "port", FD: descriptor(t), Lent: i == 0})
			}
			return append(list, sockets.Socket{Name: "other", FD: descriptor(t)}), nil
		},
		Pause: func() { p.note("pause") },
		Resume: func(s sockets.Passed) error {
			p.note("resume %d", len(s))
			return p.broken["resume"]
		},
	}
	return p
}

// connect gives the process connections, and lets it serve for three seconds.
func (p *process) connect() {
	<-p.Windows.Serving()
	time.Sleep(3 * time.Second)
	for i := range 200 {
		p.mover.has = append(p.mover.has, server.Moved{Port: "memcached", FD: descriptor(p.t), In: fmt.Append(nil, "in", i),
			Out: []byte("out"), State: []byte("state")})
	}
	p.rises()
}

// rises says whether the next id is above all before.
func (p *process) rises() string {
	h := p.Windows
	run, err := h.Issuer.Source(0).Mint(id.At(h.Clock.Now()), 1, false)
	switch {
	case err != nil:
		return "no id: " + err.Error()
	case run.First <= p.last:
		return fmt.Sprintf("%d after %d", run.First, p.last)
	}
	p.last = run.First
	return "a larger id"
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

// A scene is one process in an upgrade. A script says what the other one does.
type scene struct {
	*process
	*wire
	t     *testing.T
	dir   string
	shown int                           // of the log
	when  map[upgrade.Kind]func() error // what happens when something is said
	link  *child
	g     *Giver
	taker *Taker
	in    *Inherited
	lease *store
	waits bool   // it has said so
	other *scene // the new process of an old one
}

func newScene(t *testing.T, dir string) *scene {
	time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)))
	return &scene{t: t, dir: dir, wire: newWire(), when: map[upgrade.Kind]func() error{},
		lease: &store{busy: make(chan struct{})}}
}

// heard notes what the other process is told, and of some that say that it waits the first.
func (s *scene) heard(m upgrade.Message) {
	if m.Kind == upgrade.Waiting && s.waits {
		return
	}
	s.waits = m.Kind == upgrade.Waiting
	n, text := len(m.Moved)+len(m.Sockets), new(strings.Builder)
	m.Moved, m.Sockets, m.Places = nil, nil, nil
	m.Fingerprint = strings.Replace(m.Fingerprint, s.Fingerprint, "IDS", 1)
	json.NewEncoder(text).Encode(m)
	s.note("says %s %d", strings.TrimSpace(text.String()), n)
}

// happens makes happen what is to happen when something is said.
func (s *scene) happens(kind upgrade.Kind) error {
	if what := s.when[kind]; what != nil {
		return what()
	}
	return nil
}

func TestGive(t *testing.T) { play(t, "testdata/give.txt") }
func TestTake(t *testing.T) { play(t, "testdata/take.txt") }

// play plays a script, and looks for descriptors that are left.
func play(t *testing.T, path string) {
	dir := t.TempDir()
	steps.Run(t, path, func(t *testing.T) steps.Calls {
		before, s := open(t), newScene(t, filepath.Join(dir, "state"))
		t.Cleanup(func() {
			s.end()
			if after := open(t); after != before {
				t.Errorf("%d descriptors, and %d before", after, before)
			}
		})
		return s.calls()
	})
}

// end ends both processes.
func (s *scene) end() {
	if s.g != nil && s.g.fail != nil {
		s.g.fail(nil)
	}
	s.dieOld()
	synctest.Wait()
	s.dieNew()
	synctest.Wait()
	for len(s.toNew) > 0 {
		upgrade.CloseAll((<-s.toNew).fds)
	}
	s.Windows.Stop(true)
	closeMoved(s.mover.has)
	s.in.Passed().Close()
}

// happened returns what was noted and logged since the last time.
func (s *scene) happened() string {
	text := s.log.String()[s.shown:]
	s.shown += len(text)
	text = regexp.MustCompile(`time=\S+ level=`).ReplaceAllString(text, "")
	return strings.NewReplacer(s.dir, "DIR", fmt.Sprint("from=", os.Getppid()), "from=PPID").Replace(text)
}

// upgrade begins an upgrade.
func (s *scene) upgrade(timeout time.Duration) {
	u := Upgrade{
		Timeout:   timeout,
		Start:     func() (Child, error) { return s.link, s.broken["start"] },
		Succeeded: func(new Succession) { s.note("succeeded: %+v", new) },
		Failed: func(err error) {
			again := s.g.Upgrade(Upgrade{Start: func() (Child, error) { return nil, errors.New("no program") }})
			s.note("who asked is told: %v; asks again: %v", err, again)
		},
	}
	go func() { s.note("Upgrade: %v", s.g.Upgrade(u)) }()
}

// say makes the other process say something: with more as JSON, and with one descriptor too few.
func (s *scene) say(kind upgrade.Kind, more ...string) error {
	h := heard{Message: upgrade.Message{Kind: kind}}
	switch kind {
	case upgrade.Begin, upgrade.Hello:
		h.Version, h.Program, h.Fingerprint = upgrade.Version, "3.4.5", s.Fingerprint
	case upgrade.Take:
		h.Floor = time.Now().UnixMilli()
	}
	if len(more) > 0 {
		if err := json.Unmarshal([]byte(more[0]), &h.Message); err != nil {
			return err
		}
	}
	for range len(h.Moved) + len(h.Sockets) - max(0, len(more)-1) {
		h.fds = append(h.fds, descriptor(s.t))
	}
	if s.g != nil {
		s.toOld <- h
	} else {
		s.toNew <- h
	}
	return nil
}

// calls are what scripts call.
func (s *scene) calls() steps.Calls {
	effects := map[string]func() error{
		"broken": func() error { return errors.New("broken pipe") },
		"hangs": func() error {
			<-s.link.deadline
			return os.ErrDeadlineExceeded
		},
		"dies": func() error {
			s.dieNew()
			return nil
		},
		"stop": func() error {
			s.g.fail(context.Canceled)
			return nil
		},
		"reload": func() error {
			s.g.Reloads()
			return nil
		},
		"spoil": func() error { return errors.Join(os.RemoveAll(s.dir), os.WriteFile(s.dir, nil, 0o600)) },
	}
	old := func(dir string) {
		s.process = newProcess(s.t, dir, false, nil)
		s.g, s.link = NewGiver(s.Config), &child{scene: s, deadline: make(chan struct{})}
	}
	serves := func() {
		ctx, fail := context.WithCancelCause(context.Background())
		s.g.Serves(ctx, fail)
	}
	return steps.Calls{
		"": s.happened, "sleep": time.Sleep, "effects": effects, "upgrade": s.upgrade, "say": s.say,
		"stop": effects["stop"], "reload": effects["reload"], "shut": s.dieNew,
		"young": func() { old("") }, "serves": serves,
		"old": func(dir ...string) { // any word: it has a state directory
			old(strings.Repeat(s.dir, len(dir)))
			s.connect()
			serves()
		},
		"new": func(leased ...string) { // any word: its worker id is leased
			if len(leased) == 0 {
				s.lease = nil
			}
			s.process = newProcess(s.t, "", true, s.lease)
		},
		"when":    func(kind upgrade.Kind, what func() error) { s.when[kind] = what },
		"fails":   func(what, why string) { s.broken[what] = errors.New(why) },
		"idle":    func(times int) { s.mover.idle = times },
		"keeps":   func(sequences bool) { s.keepsNone = !sequences },
		"free":    func() { close(s.lease.busy) },
		"abandon": func() { s.g.Abandon() },
		"has": func() string {
			return s.rises() + ", " + s.mover.String()
		},
		"end":    func() { s.note("retired: %v; %v", s.g.End(), context.Cause(s.g.ctx)) },
		"closes": func() { closeMoved(s.mover.given) }, // with its end a process loses what it has
		"dies": func() { // the other process
			if s.dieOld(); s.g != nil {
				s.dieNew()
			}
		},
		"cut":      func() bool { return over(s.cutNew) },
		"nonsense": func() { s.toNew <- heard{err: errors.New("no message")} },
		"introduce": func() {
			go func() {
				var err error
				s.in, err = Introduce(&origin{s})
				s.note("Introduce: %v, %d sockets, a lent: %v, b lent: %v, died: %v", err, len(s.in.Passed()),
					s.in.Passed().Lent("a"), s.in.Passed().Lent("b"), s.in != nil && s.in.Died)
			}()
		},
		"take": func(limit time.Duration) {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			s.t.Cleanup(cancel)
			go func() {
				var err error
				s.taker, err = Take(ctx, s.Config, &origin{s})
				s.note("Take: %v", err)
			}()
		},
		"joined": func() { // by a new process that goes on
			s.link.hears = true
			next := &scene{process: newProcess(s.t, "", true, nil), wire: s.wire}
			s.t.Cleanup(func() { next.Windows.Stop(true) })
			next.mover.idle, next.Counters, next.log = 3, "/there", s.log
			go func() {
				in, err := Introduce(&origin{next})
				taker, e := Take(context.Background(), next.Config, in.From)
				next.last = s.last
				next.note("the new one before it serves: %v, %v, %s, %v", err, e, next.rises(), next.mover)
				taker.Serve()
				s.in = in
			}()
			s.other = next
		},
		"other": func() string {
			p := s.in.Passed()
			defer closeMoved(s.other.mover.has)
			return fmt.Sprintf("%v; %d sockets, %d of a port, which is lent: %v, the other one: %v", s.other.mover, len(p),
				len(p.Named("port")), p.Lent("port"), p.Lent("other"))
		},
		"serve": func() string {
			began := time.Now()
			s.taker.Serve()
			return fmt.Sprint("after ", time.Since(began))
		},
	}
}

// TestInherited: nothing, what a supervisor passes, and what a predecessor does.
func TestInherited(t *testing.T) {
	var none *Inherited
	passed := sockets.Passed{{Name: "port", FD: -1}, {Name: "port", FD: -1}}
	supervisor, predecessor := &Inherited{Sockets: passed}, &Inherited{Sockets: passed, From: &origin{}}
	if none.Succeeds() || supervisor.Succeeds() || !predecessor.Succeeds() {
		t.Error("who succeeds another process?")
	}
	if none.Passed() != nil || len(supervisor.Passed()) != 2 {
		t.Error("what was passed?")
	}
	for _, c := range []struct {
		in   *Inherited
		name string
		want int
	}{{none, "port", 7}, {supervisor, "port", 7}, {predecessor, "port", 2}, {predecessor, "sock", 7}} {
		if got := c.in.Loops(c.name, 7); got != c.want {
			t.Errorf("%+v, %s: %d loops", c.in, c.name, got)
		}
	}
	places := []sockets.Place{{Flag: "http-port", Port: 80}}
	missing := "the process that runs did not pass it: a port is added by a restart"
	for _, c := range []struct {
		in   *Inherited
		want string
	}{{none, ""}, {&Inherited{}, ""}, {&Inherited{From: &origin{}}, missing},
		{&Inherited{From: &origin{}, Died: true}, ""}} {
		err := c.in.Check(places, nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.in, err)
		}
	}
}

// A store grants a worker id once it is not busy any more.
type store struct {
	workerid.Backend
	now  func() int64
	busy chan struct{}
}

func (s *store) Acquire(_ context.Context, want workerid.Request) (workerid.Grant, error) {
	if !over(s.busy) {
		return workerid.Grant{}, workerid.ErrNoID
	}
	return workerid.Grant{Worker: want.Min, Owner: want.Owner, Lo: s.now(), Hi: s.now() + 60_000}, nil
}

func (*store) Release(context.Context, workerid.Grant, int64) error { return nil }
func (*store) Close() error                                         { return nil }
