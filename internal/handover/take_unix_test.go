//go:build unix

package handover

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// say makes the old process say something, with so many descriptors.
func (w *wire) say(t *testing.T, m upgrade.Message, n int) {
	t.Helper()
	h := heard{Message: m}
	for range n {
		h.fds = append(h.fds, descriptor(t))
	}
	w.toNew <- h
}

// kinds returns what the new process has said.
func (w *wire) kinds() (list []string) {
	for len(w.toOld) > 0 {
		m := <-w.toOld
		list = append(list, strings.TrimSpace(string(m.Kind)+" "+m.Why))
	}
	return list
}

var (
	begin = upgrade.Message{Kind: upgrade.Begin, Version: upgrade.Version, Program: "3.4.5"}
	two   = upgrade.Message{Kind: upgrade.Moved, Moved: []upgrade.Connection{{Port: "a", In: []byte("i")}, {Port: "b"}}}
	serve = upgrade.Message{Kind: upgrade.Serve}
)

// takes is what the old process gives.
func takes(connections int) upgrade.Message {
	return upgrade.Message{Kind: upgrade.Take, Floor: time.Now().UnixMilli(), Connections: connections}
}

// TestIntroduce: what the process that is to be succeeded may say first.
func TestIntroduce(t *testing.T) {
	socketsOf := func(lent string, names ...string) upgrade.Message {
		return upgrade.Message{Kind: upgrade.Sockets, Sockets: names, Lent: []string{lent}}
	}
	for _, c := range []struct {
		name  string
		say   func(t *testing.T, w *wire)
		died  bool
		count int
		says  string
	}{
		{"all", func(t *testing.T, w *wire) {
			w.say(t, socketsOf("b", "a", "b"), 2)
			w.say(t, socketsOf("", "a"), 1)
			w.say(t, begin, 0)
		}, false, 3, ""},
		{"it dies at once", func(_ *testing.T, w *wire) { w.dieOld() }, true, 0, ""},
		{"it dies later", func(t *testing.T, w *wire) {
			w.say(t, socketsOf("b", "a", "b"), 2)
			w.dieOld()
		}, true, 2, ""},
		{"another version", func(t *testing.T, w *wire) {
			m := begin
			m.Version = 7
			w.say(t, m, 0)
		}, false, 0, "the process that runs, of version 3.4.5, speaks version 7 of the upgrade, this one 1: restart instead"},
		{"names without sockets", func(t *testing.T, w *wire) { w.say(t, socketsOf("", "a", "b"), 1) }, false, 0,
			`the previous process said "sockets", which this one does not understand`},
		{"something else", func(t *testing.T, w *wire) { w.say(t, two, 2) }, false, 0,
			`the previous process said "moved", which this one does not understand`},
		{"nothing that is understood", func(_ *testing.T, w *wire) { w.dieNew() }, false, 0,
			"the previous process: file already closed"},
	} {
		before := open(t)
		w := newWire()
		c.say(t, w)
		in, err := Introduce(&origin{wire: w})
		switch {
		case c.says != "":
			if err == nil || err.Error() != c.says {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case in.Died != c.died || len(in.Sockets) != c.count || !in.Succeeds() || c.count > 1 && !in.Passed().Lent("b") ||
			in.Passed().Lent("a"):
			t.Errorf("%s: %+v", c.name, in)
		}
		if in != nil {
			in.Sockets.Close()
		}
		if after := open(t); after != before {
			t.Errorf("%s: %d descriptors, and %d before", c.name, after, before)
		}
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

// TestTake: whatever the old process says, or if it dies, the new one goes on with what it has, or says why not.
func TestTake(t *testing.T) {
	for _, c := range []struct {
		name  string
		say   func(t *testing.T, w *wire)
		says  string // empty = it serves
		moved int
		told  string // what the old process has heard
	}{
		{"nothing but a worker id", func(t *testing.T, w *wire) {
			w.say(t, takes(0), 0)
			w.say(t, serve, 0)
		}, "", 0, "hello, ready, serving"},
		{"connections in parts", func(t *testing.T, w *wire) {
			w.say(t, takes(4), 0)
			w.say(t, two, 2)
			w.say(t, two, 2)
			w.say(t, serve, 0)
		}, "", 4, "hello, ready, serving"},
		{"it dies before it gives", func(_ *testing.T, w *wire) { w.dieOld() }, "", 0, ""},
		{"it dies while it gives", func(t *testing.T, w *wire) {
			w.say(t, takes(4), 0)
			w.say(t, two, 2)
			w.dieOld()
		}, "", 2, ""},
		{"connections without a number", func(t *testing.T, w *wire) { w.say(t, two, 2) },
			`said "moved", which this one does not understand`, 0, `hello, refused the previous process said "moved", ` +
				`which this one does not understand`},
		{"two numbers", func(t *testing.T, w *wire) {
			w.say(t, takes(2), 0)
			w.say(t, takes(2), 1)
		}, `said "take", which this one does not understand`, 0, "hello, refused"},
		{"connections without sockets", func(t *testing.T, w *wire) {
			w.say(t, takes(4), 0)
			w.say(t, two, 2)
			w.say(t, two, 1)
		}, `said "moved", which this one does not understand`, 0, "hello, refused"},
		{"places that are none", func(t *testing.T, w *wire) {
			m := takes(0)
			m.Places = []byte("{")
			w.say(t, m, 0)
		}, "the places of other layouts: ", 0, "hello, refused"},
		{"something else than Serve", func(t *testing.T, w *wire) {
			w.say(t, takes(0), 0)
			w.say(t, takes(0), 3)
		}, `said "take", which this one does not understand`, 0, "hello, ready, refused"},
		{"nonsense", func(_ *testing.T, w *wire) {
			w.toNew <- heard{err: errors.New("no message")}
		}, "no message", 0, "hello, refused no message"},
		{"nonsense for Serve", func(t *testing.T, w *wire) {
			w.say(t, takes(0), 0)
			w.toNew <- heard{err: errors.New("no message")}
		}, "no message", 0, "hello, ready, refused no message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				p, w := newProcess(t, true), newWire()
				c.say(t, w)
				o := &origin{wire: w}
				taker, err := Take(context.Background(), p.Config, o)
				switch {
				case c.says == "" && err == nil:
					taker.Serve()
				case c.says == "" || err == nil || !strings.Contains(err.Error(), c.says):
					t.Errorf("%v, want %s", err, c.says)
				}
				if len(p.mover.has) != c.moved || c.moved > 0 && string(p.mover.has[0].In) != "i" || o.detached != (err == nil) {
					t.Errorf("%d connections; detached: %v", len(p.mover.has), o.detached)
				}
				told := w.kinds()
				if got := strings.Join(told, ", "); !strings.HasPrefix(got, c.told) || len(told) > 3 {
					t.Errorf("it heard: %s", got)
				}
				if strings.Contains(p.log.String(), "errors go to the previous process") {
					t.Error("errors do not go to the log")
				}
				if died := strings.Contains(p.log.String(), "died: this one goes on"); err == nil && died != (c.told == "") {
					t.Error(p.log.String())
				}
				if err == nil {
					p.rises()
				}
				w.dieOld()
				synctest.Wait()
				w.dieNew()
				closeMoved(p.mover.has)
			})
		})
	}
}

// TestTheOldProcessDiesBeforeServe: the new one has all, and serves.
func TestTheOldProcessDiesBeforeServe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, w := newProcess(t, true), newWire()
		w.say(t, takes(2), 0)
		w.say(t, two, 2)
		time.AfterFunc(time.Minute, w.dieOld)
		taker, err := Take(context.Background(), p.Config, &origin{wire: w})
		if err != nil || !taker.alone || len(taker.moved) != 2 {
			t.Fatal(err)
		}
		taker.Serve()
		p.rises()
		closeMoved(p.mover.has)
	})
}

// TestConnectionsThatCannotBeAdopted are closed, and the log says so; those of an engine that does not serve yet wait.
func TestConnectionsThatCannotBeAdopted(t *testing.T) {
	for i, idle := range []int{50, 1 << 30, 50} {
		alone := i == 2 // the old process has died
		bubble(t, func(t *testing.T) {
			p, w := newProcess(t, true), newWire()
			p.mover.idle, p.mover.adopts = idle, errors.New("no session")
			w.say(t, takes(2), 0)
			w.say(t, two, 2)
			if alone {
				w.dieOld()
			} else {
				w.say(t, serve, 0)
			}
			taker, err := Take(context.Background(), p.Config, &origin{wire: w})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			taker.Serve()
			why := map[bool]string{true: "no session", false: server.ErrIdle.Error()}[idle == 50]
			if got := p.log.String(); strings.Count(got, "a connection is lost in the upgrade") != 2 ||
				!strings.Contains(got, why) || !strings.Contains(got, "connections=0") ||
				strings.Contains(got, "this one goes on") != alone {
				t.Error(got)
			}
			if took := time.Since(began); idle > 50 && took < 2*stepTimeout || idle == 50 && took > stepTimeout {
				t.Errorf("it tried for %v", took)
			}
			// What the old process says from now on is closed, until its end.
			if !alone {
				w.say(t, two, 2)
			}
			synctest.Wait()
			w.dieOld()
			synctest.Wait()
			if !over(w.cutNew) {
				t.Error("its end of the wire is open")
			}
		})
	}
}

// TestAStopDuringATakeOver: the new process gives up, and says so.
func TestAStopDuringATakeOver(t *testing.T) {
	for _, given := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			p, w := newProcess(t, true), newWire()
			if given {
				w.say(t, takes(0), 0)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			if _, err := Take(ctx, p.Config, &origin{wire: w}); err == nil {
				t.Error("it serves")
			}
			synctest.Wait()
			if got := w.kinds(); !strings.HasPrefix(got[len(got)-1], "refused ") || !over(w.cutNew) {
				t.Errorf("it said %q", got)
			}
		})
	}
}

// TestALeasedWorkerIDComesFirst: the old process hears what the new one waits for, and gives nothing before.
func TestALeasedWorkerIDComesFirst(t *testing.T) {
	for _, comes := range []bool{true, false} {
		bubble(t, func(t *testing.T) {
			p, w := newProcess(t, true), newWire()
			s := &store{busy: make(chan struct{})}
			h := windows.New(windows.Config{
				Log: p.Log, Layout: generator.Katsubushi(), MaxRunAhead: time.Second, Lanes: 1, Succeeds: true,
				Store: windows.Store{Min: 5, Max: 5, Lease: time.Minute, Heartbeat: 10 * time.Second,
					Open: func(now func() int64, _ string) (workerid.Backend, error) {
						s.now = now
						return s, nil
					}},
			})
			defer h.Stop(true)
			if err := h.Open(); err != nil {
				t.Fatal(err)
			}
			h.Start()
			p.Windows = h
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if comes {
				time.AfterFunc(3500*time.Millisecond, func() { close(s.busy) })
			}
			w.say(t, takes(0), 0)
			w.say(t, serve, 0)
			taker, err := Take(ctx, p.Config, &origin{wire: w})
			said := w.kinds()
			if comes != (err == nil) || comes != slices.Contains(said, "ready") ||
				!strings.HasPrefix(said[0], "waiting no worker id yet\nlane 0: acquiring for 1s") {
				t.Errorf("comes=%v: %v, said %q", comes, err, said)
			}
			if err == nil {
				taker.Serve()
				p.rises()
			}
			w.dieOld()
			synctest.Wait()
		})
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

// TestTheOldProcessIsGone: that what is said does not reach it is no error.
func TestTheOldProcessIsGone(t *testing.T) {
	w := newWire()
	taker := &Taker{o: &origin{wire: w}}
	w.dieOld()
	if err := taker.say(serve); err != nil {
		t.Error(err)
	}
	for _, err := range []error{os.ErrDeadlineExceeded, io.ErrShortWrite} {
		taker.o = deaf{taker.o, err}
		if got := taker.say(serve); !errors.Is(got, err) {
			t.Error(got)
		}
	}
}

type deaf struct {
	Origin
	err error
}

func (d deaf) Send(upgrade.Message, ...int) error { return d.err }

// TestReadyDoesNotArrive: the old process serves on, so the new one must not.
func TestReadyDoesNotArrive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p, w := newProcess(t, true), newWire()
		w.say(t, takes(0), 0)
		w.say(t, serve, 0)
		if _, err := Take(context.Background(), p.Config, notReady{&origin{wire: w}}); !errors.Is(err, io.ErrShortWrite) {
			t.Error(err)
		}
		w.dieOld()
		synctest.Wait()
	})
}

// notReady is an origin that does not get Ready.
type notReady struct{ *origin }

func (n notReady) Send(m upgrade.Message, fds ...int) error {
	if m.Kind == upgrade.Ready {
		return io.ErrShortWrite
	}
	return n.origin.Send(m, fds...)
}
