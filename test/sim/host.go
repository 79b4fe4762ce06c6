package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// A host is one machine with one worker id that was given by hand: the real state file store on a
// disk that loses what is not synced, beside memory that loses everything with the power, and one
// life of a process after the other, ended by kill -9, power cuts or a clean stop, while somebody
// plays with the wall clock, the disk stands still, the memory is lost or put back, and files are
// deleted under a process that is stopped.
type host struct {
	Report
	rand   *rand.Rand
	disk   *crashdisk.Disk
	memory *crashdisk.Memory
	past   []*crashdisk.Memory // what was in the memory at the beginning of each life
	during *crashdisk.Memory   // and at some time of the last one

	boot   int64 // ms since the machine booted
	boots  int
	off    int64  // boot of the boots before, together
	wall   int64  // wall clock − boot, ms
	latest int64  // that an id clock has shown
	copied []byte // of the state file at some time of the lives so far
	faulty bool   // operations of the disk fail now and then
	steady bool   // the clock is seldom played with: more ids, and the memory is what matters
	backup bool   // the state file is put back now and then, and the memory is not
	nonces int

	*process // the one that runs
}

// A process is one life.
type process struct {
	idClock int64    // id clock − boot, ms: set from the wall clock when the process starts
	hangs   bool     // the disk does not answer
	waiting []func() // for the disk
	store   *static.Store
	grant   workerid.Grant
	lane    *generator.Snowflake
}

// RunHost carries out a run on one host. Its length is in lives of the process, c.Minutes of them.
func RunHost(c Config) Report {
	h := &host{
		Report: Report{Config: c, Daemons: 1, Lanes: 1, Workers: 1}, rand: rand.New(rand.NewPCG(c.Seed, 0x686f7374)),
		disk: &crashdisk.Disk{}, memory: &crashdisk.Memory{}, past: []*crashdisk.Memory{{}}, during: &crashdisk.Memory{},
		wall: start,
	}
	h.steady, h.backup = h.rand.IntN(2) == 0, c.Seed%5 == 0
	for range c.Minutes {
		h.faulty = h.rand.IntN(3) == 0
		if h.begin(1 + h.rand.IntN(3)) {
			h.live(30, true)
			h.end()
		}
		if h.rand.IntN(3) > 0 { // else it is started again at once
			h.pass(h.rand.Int64N(5000))
		}
		h.playWithTheClock(4)
		if h.backup {
			h.restore()
		} else {
			h.playWithTheMemory()
		}
	}
	h.faulty = false
	h.mustServeAgain()
	return h.Report
}

func (h *host) now() int64 {
	now := h.boot + h.idClock
	h.latest = max(h.latest, now)
	return now
}

func (h *host) pass(ms int64) { h.boot += ms }

// playWithTheClock sets the wall clock, once in n times.
func (h *host) playWithTheClock(n int) {
	if h.steady {
		n *= 8
	}
	if h.rand.IntN(n) != 0 || h.disk.Read("worker-1.state") == nil { // without a file the clock is all that there is
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

// playWithTheMemory loses it, as a container that is made anew does, or puts it back to what it was
// before an earlier life, as a checkpoint does, or puts copies of what it was in their place. The
// very pages that the last life had, as they were within that life, nobody could tell from what it
// left.
func (h *host) playWithTheMemory() {
	switch h.rand.IntN(8) {
	case 0:
		h.memory.Lose()
	case 1, 2:
		h.memory = h.past[max(0, len(h.past)-1-h.rand.IntN(3))].At()
	case 3, 4:
		h.memory.PutBack(h.during)
	default:
		return
	}
	h.Faults++
}

// restore puts back a copy of the state file that was made while a process ran, with or without the lock. The
// memory is as it was: the very page of an earlier life nobody can put back. And the clock must not have gone back.
func (h *host) restore() {
	if h.copied == nil || h.boot+h.wall < h.latest || h.rand.IntN(3) > 0 {
		return
	}
	h.Faults++
	h.disk.Fault = nil
	h.disk.Write("worker-1.state", h.copied)
	if h.rand.IntN(2) == 0 {
		h.disk.Write("worker-1.lock", nil)
	}
}

// begin starts a process and gets it a window, unless the disk or the clock does not let it within
// patience.
func (h *host) begin(patience int) bool {
	if h.Mutant == Forgotten {
		h.disk = &crashdisk.Disk{}
	}
	p := &process{idClock: h.wall}
	h.process = p
	before := h.memory.At()
	h.disk.Trace = nil
	fault := func() error {
		if h.faulty && h.rand.IntN(30) == 0 {
			h.Faults++
			return errors.New("input/output error")
		}
		return nil
	}
	h.disk.Fault = func(string) error { return fault() }
	h.memory.Fault = fault
	var err error
	p.store, err = static.Open(h.config(p))
	if err == nil {
		for range patience { // a wall clock that was just set forward is not believed at once
			if p.grant, err = p.store.Acquire(context.Background(),
				workerid.Request{Owner: "process", Min: 1, Max: 1}); err == nil {
				break
			}
			h.pass(1000)
		}
	}
	if err != nil {
		if errors.Is(err, static.ErrDamaged) {
			h.Stuck = append(h.Stuck, err.Error())
		}
		if p.store != nil {
			p.store.Close()
		}
		return false
	}
	h.past, h.during = append(h.past, before), before
	hi := p.grant.Hi
	if h.Mutant == Unfenced {
		hi = workerid.Forever
	}
	word := p.store.Word(1, p.grant.Lo)
	if h.Mutant == Wordless && word != nil {
		word.Store(uint64(p.grant.Lo-epoch) << hostLayout.SequenceBits)
		word = nil
	}
	if p.lane, err = generator.NewSnowflake(generator.Options{Layout: hostLayout, Worker: 1, Lo: p.grant.Lo, Hi: hi,
		Word: word}); err != nil {
		panic(err)
	}
	return true
}

var hostLayout = generator.Layout{Epoch: epoch, Unit: 1, TimeBits: 42, WorkerBits: 8, SequenceBits: 6}

func (h *host) config(p *process) static.Config {
	c := static.Config{
		Dir: "state", Workers: []uint64{1}, Fingerprint: "simulated", RunAhead: runAhead * time.Millisecond,
		Now: func() int64 {
			h.latest = max(h.latest, h.boot+p.idClock)
			return h.boot + p.idClock
		},
		Log: slog.New(slog.DiscardHandler), Disk: h.disk, Machine: "simulated",
		Memory: h.memory, Issued: hostLayout.Issued, First: hostLayout.First,
		Clocks: func() static.Clocks {
			return static.Clocks{Wall: h.boot + h.wall, Boot: h.boot, BootID: fmt.Sprintf("boot-%d", h.boots)}
		},
		Nonce: func() string {
			h.nonces++
			return fmt.Sprintf("nonce-%d", h.nonces)
		},
		Background: func(f func()) {
			if p.hangs {
				p.waiting = append(p.waiting, f)
			} else {
				f()
			}
		},
	}
	switch h.Mutant {
	case Unsynced:
		c.Disk = unsynced{h.disk}
	case Unrenewed:
		c.Nonce = func() string { return "nonce" }
	case AnyBoot:
		c.Clocks = func() static.Clocks {
			return static.Clocks{Wall: h.boot + h.wall, Boot: h.off + h.boot, BootID: "boot"}
		}
	case AnyRun:
		c.Memory = anyRun{h.memory}
	case AnyPage:
		c.Memory = anyPage{h.memory}
	case AnyWrite:
		c.Memory = anyWrite{h.memory}
	case AnyFile:
		c.Disk = sameState{h.disk}
	case AnyLock:
		c.Disk = sameNumber{h.disk}
	}
	return c
}

// live is some seconds of a process: clients, heartbeats, pauses, a disk that stands still, and an
// id clock that follows the wall clock now and then.
func (h *host) live(most int, alone bool) {
	for range h.rand.IntN(most) {
		h.Events++
		h.pass(h.rand.Int64N(400))
		if h.rand.IntN(4) == 0 {
			h.during = h.memory.At()
		}
		if h.backup && h.rand.IntN(50) == 0 {
			h.copied = h.disk.Read("worker-1.state")
		}
		switch h.rand.IntN(25) {
		case 0:
			h.playWithTheClock(1)
		case 1:
			h.idClock = h.wall
		case 2:
			h.pass(h.rand.Int64N(10_000)) // SIGSTOP
		case 3:
			h.hangs = true
		case 4, 5:
			h.answer()
		case 6:
			if alone {
				h.stopAndDelete()
			}
		case 7:
			// and the heartbeat comes before the next request. A lease that was lost has none
			if h.rand.IntN(4) == 0 && h.extend() {
				h.Faults++
				h.memory.Overwrite(h.during)
				h.extend()
			}
		}
		if h.rand.IntN(2) == 0 {
			h.extend()
		}
		h.serve()
	}
}

// answer lets the disk go on.
func (h *host) answer() {
	h.hangs = false
	for _, f := range h.waiting {
		f()
	}
	h.waiting = nil
}

// stopAndDelete stops the process, deletes its lock, or moves it away for as long, and starts
// others, which come and go, before it goes on. What there is without the state file, too, is the
// clock alone: that must not have gone back.
func (h *host) stopAndDelete() {
	h.Faults++
	stopped := h.process
	moved := h.rand.IntN(2) == 0
	if moved {
		h.disk.Rename("worker-1.lock", "away")
	} else {
		h.disk.Remove("worker-1.lock")
	}
	if h.boot+h.wall >= h.latest && h.rand.IntN(3) == 0 {
		h.disk.Remove("worker-1.state")
	}
	for range 1 + h.rand.IntN(2) {
		h.pass(h.rand.Int64N([]int64{100, 3000}[h.rand.IntN(2)]))
		if h.begin(1 + h.rand.IntN(3)) {
			h.live([]int{3, 30}[h.rand.IntN(2)], false)
			h.answer()
			if h.rand.IntN(2) == 0 {
				h.store.Close() // kill -9
			} else {
				h.stop()
			}
		}
		if h.rand.IntN(3) == 0 {
			h.disk.Remove("worker-1.lock")
		}
	}
	if moved {
		h.disk.Rename("away", "worker-1.lock")
	}
	h.process = stopped
}

// extend asks for a longer window, and does not wait for the disk.
func (h *host) extend() (held bool) {
	results, err := h.store.Extend(&impatient{Context: context.Background()}, []workerid.Grant{h.grant})
	if err == nil {
		err = results[0].Err
	}
	if errors.Is(err, workerid.ErrShared) {
		h.lane.Seal()
	}
	if err != nil {
		return false
	}
	g := results[0].Grant
	h.grant.Hi = g.Hi
	if h.Mutant == Unfenced || g.Hi < g.Lo {
		return true
	}
	if err := h.lane.Extend(g.Lo, g.Hi); err != nil {
		panic(err)
	}
	return true
}

// An impatient context ends as soon as somebody waits for it.
type impatient struct {
	context.Context
	asked bool
}

func (c *impatient) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	c.asked = true
	return done
}

func (c *impatient) Err() error {
	if c.asked {
		return context.DeadlineExceeded
	}
	return nil
}

// serve asks for some ids, at times for more than the run-ahead has.
func (h *host) serve() {
	calls := 1 + h.rand.IntN(3)
	if h.rand.IntN(10) == 0 {
		calls = many
	}
	h.issue(calls)
}

const many = 1500 // calls that run ahead of the clock as far as they may

func (h *host) issue(calls int) {
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
	if h.rand.IntN(2) == 0 {
		h.issue(many)
	}
	switch h.rand.IntN(3) {
	case 0:
		h.kill()
	case 1:
		h.disk = h.disk.Cut(h.rand)
		if h.rand.IntN(2) == 0 {
			h.memory = h.during.At() // it was on a disk, and what had been synced is there
		} else {
			h.memory = &crashdisk.Memory{}
		}
		h.wall += h.boot // the clock runs on while the power is off
		h.off += h.boot
		h.boot, h.boots = 0, h.boots+1
	default:
		if h.rand.IntN(2) == 0 {
			h.answer()
		}
		h.stop()
		h.kill()
	}
}

// stop is a clean stop, as far as the disk allows.
func (h *host) stop() {
	last := h.lane.Position()
	if h.Mutant != Unsealed {
		last = h.lane.Seal()
	}
	if h.Mutant == Early {
		last = h.grant.Lo - 1
	}
	err := h.store.Release(&impatient{Context: context.Background()}, h.grant, last)
	h.serve() // requests that were under way
	if err == nil || h.waiting == nil {
		h.store.Close()
	}
}

// kill ends every process.
func (h *host) kill() { h.disk = h.disk.Kill() }

// mustServeAgain: on a sound disk, a process that waits until the clock has come to what is
// recorded serves.
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
