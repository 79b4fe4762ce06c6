package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/katsubushi/katsubushi/generator"
	"github.com/katsubushi/katsubushi/workerid"
	"github.com/katsubushi/katsubushi/workerid/static"
	"github.com/katsubushi/katsubushi/workerid/static/crashdisk"
)

// The mutants of a host with a state file, besides Unfenced and Unsealed.
const (
	Unsynced  Mutant = "the disk is not asked to keep what is written"
	Forgotten Mutant = "the state file is gone after each run"
	Early     Mutant = "what is reported at the end lies before the last id"
)

// HostMutants is all that RunHost knows.
func HostMutants() []Mutant { return []Mutant{Unfenced, Unsealed, Unsynced, Forgotten, Early} }

// A host is one machine with one worker id that was given by hand: the real state file store on a disk that loses what is not synced,
// and one life of a process after the other, ended by kill -9, power cuts or a clean stop, while somebody plays with the wall clock.
type host struct {
	Report
	rand *rand.Rand
	disk *crashdisk.Disk

	boot   int64 // ms since the machine booted
	boots  int
	wall   int64 // wall clock − boot, ms
	faulty bool  // operations of the disk fail now and then

	idClock int64 // id clock − boot of this life, ms: set from the wall clock when the process starts
	store   *static.Store
	grant   workerid.Grant
	lane    *generator.Snowflake
}

// RunHost carries out a run on one host. Its length is in lives of the process, c.Minutes of them.
func RunHost(c Config) Report {
	h := &host{Report: Report{Config: c, Daemons: 1, Lanes: 1, Workers: 1}, rand: rand.New(rand.NewPCG(c.Seed, 0x686f7374)), disk: &crashdisk.Disk{}, wall: start}
	for range c.Minutes {
		h.faulty = h.rand.IntN(3) == 0
		if h.begin(1 + h.rand.IntN(3)) {
			h.live()
			h.end()
		}
		h.pass(h.rand.Int64N(5000))
		h.playWithTheClock(4)
	}
	h.faulty = false
	h.mustServeAgain()
	return h.Report
}

func (h *host) now() int64 { return h.boot + h.idClock }

func (h *host) pass(ms int64) { h.boot += ms }

// playWithTheClock sets the wall clock, once in n times.
func (h *host) playWithTheClock(n int) {
	if h.rand.IntN(n) != 0 {
		return
	}
	h.Faults++
	switch h.rand.IntN(3) {
	case 0:
		h.wall += h.rand.Int64N(10_000) - 5000
	case 1:
		h.wall += h.rand.Int64N(2*time.Hour.Milliseconds()) - time.Hour.Milliseconds()
	default:
		h.wall = start
	}
}

// begin starts a process and gets it a window, unless the disk or the clock does not let it within patience.
func (h *host) begin(patience int) bool {
	if h.Mutant == Forgotten {
		h.disk = &crashdisk.Disk{}
	}
	h.idClock = h.wall
	h.disk.Trace = nil
	h.disk.Fault = func(string) error {
		if h.faulty && h.rand.IntN(30) == 0 {
			h.Faults++
			return errors.New("input/output error")
		}
		return nil
	}
	var disk static.Disk = h.disk
	if h.Mutant == Unsynced {
		disk = unsynced{h.disk}
	}
	var err error
	h.store, err = static.Open(static.Config{
		Dir: "state", Workers: []uint64{1}, Fingerprint: "simulated", RunAhead: runAhead * time.Millisecond, Now: h.now,
		Log: slog.New(slog.DiscardHandler), Disk: disk, Machine: "simulated",
		Clocks: func() static.Clocks {
			return static.Clocks{Wall: h.boot + h.wall, Boot: h.boot, BootID: fmt.Sprintf("boot-%d", h.boots)}
		},
	})
	if err == nil {
		for range patience { // a wall clock that was just set forward is not believed at once
			if h.grant, err = h.store.Acquire(context.Background(), workerid.Request{Owner: "process", Min: 1, Max: 1}); err == nil {
				break
			}
			h.pass(1000)
		}
	}
	if err != nil {
		if errors.Is(err, static.ErrDamaged) {
			h.Stuck = append(h.Stuck, err.Error())
		}
		h.kill()
		return false
	}
	layout := generator.Layout{Epoch: epoch, Unit: 1, TimeBits: 42, WorkerBits: 8, SequenceBits: 6}
	hi := h.grant.Hi
	if h.Mutant == Unfenced {
		hi = workerid.Forever
	}
	if h.lane, err = generator.NewSnowflake(generator.Options{Layout: layout, Worker: 1, Lo: h.grant.Lo, Hi: hi}); err != nil {
		panic(err)
	}
	return true
}

// live is some seconds of a process: clients, heartbeats, pauses, and an id clock that follows the wall clock now and then.
func (h *host) live() {
	for range h.rand.IntN(30) {
		h.Events++
		h.pass(h.rand.Int64N(400))
		switch h.rand.IntN(20) {
		case 0:
			h.playWithTheClock(1)
		case 1:
			h.idClock = h.wall
		case 2:
			h.pass(h.rand.Int64N(10_000)) // SIGSTOP
		}
		if h.rand.IntN(2) == 0 {
			h.extend()
		}
		h.serve()
	}
}

func (h *host) extend() {
	results, err := h.store.Extend(context.Background(), []workerid.Grant{h.grant})
	if err != nil || results[0].Err != nil {
		return
	}
	g := results[0].Grant
	h.grant.Hi = g.Hi
	if h.Mutant == Unfenced || g.Hi < g.Lo {
		return
	}
	if err := h.lane.Extend(g.Lo, g.Hi); err != nil {
		panic(err)
	}
}

// serve asks for some ids, at times for more than the run-ahead has.
func (h *host) serve() {
	calls := 1 + h.rand.IntN(3)
	if h.rand.IntN(10) == 0 {
		calls = 1500
	}
	for range calls {
		h.Requests++
		r, err := h.lane.Take(h.now(), h.now()+runAhead, 60)
		if err != nil {
			h.Refused++
			return
		}
		h.IDs.AddRun(r.First, r.Stride, r.N)
	}
}

// end ends the process in one of the ways in which processes end.
func (h *host) end() {
	h.Faults++
	switch h.rand.IntN(3) {
	case 0:
		h.kill()
	case 1:
		h.disk = h.disk.Cut(h.rand)
		h.store = nil
		h.wall += h.boot // the clock runs on while the power is off
		h.boot, h.boots = 0, h.boots+1
	default:
		last := h.lane.Position()
		if h.Mutant != Unsealed {
			last = h.lane.Seal()
		}
		if h.Mutant == Early {
			last = h.grant.Lo - 1
		}
		err := h.store.Release(context.Background(), h.grant, last)
		h.serve() // requests that were under way
		if err != nil {
			h.kill()
			return
		}
		h.store.Close()
	}
}

func (h *host) kill() {
	h.disk = h.disk.Kill()
	h.store = nil
}

// mustServeAgain: on a sound disk, a process that waits until the clock has come to what is recorded serves.
func (h *host) mustServeAgain() {
	if h.Mutant != None {
		return
	}
	if !h.begin(70) {
		h.Stuck = append(h.Stuck, "no window on a sound disk")
		return
	}
	h.pass(max(0, h.grant.Lo-h.now()))
	h.extend()
	r, err := h.lane.Take(h.now(), h.now()+runAhead, 1)
	if err != nil {
		h.Stuck = append(h.Stuck, "the clock has reached the window: "+err.Error())
		return
	}
	h.IDs.AddRun(r.First, r.Stride, r.N)
}

// unsynced is a disk whose owner trusts that what is written stays.
type unsynced struct{ *crashdisk.Disk }

type unsyncedFile struct{ static.File }

func (d unsynced) Open(path string, create bool) (static.File, error) {
	f, err := d.Disk.Open(path, create)
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (unsyncedFile) Sync() error     { return nil }
func (unsyncedFile) Datasync() error { return nil }
