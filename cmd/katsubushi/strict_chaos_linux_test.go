package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// A strictFault strikes a daemon, or etcd if d is nil, and returns what ends it; nil = it is over.
type strictFault struct {
	name  string
	etcd  bool
	lasts time.Duration // at most
	on    func(f *fleet, d *fleetDaemon) func()
}

var strictFaults = []strictFault{
	{"kill -9", false, 10 * time.Second, func(f *fleet, d *fleetDaemon) func() {
		d.end(f.t, syscall.SIGKILL)
		return func() { d.launch(f.t) }
	}},
	{"clean stop", false, 10 * time.Second, func(f *fleet, d *fleetDaemon) func() {
		d.end(f.t, syscall.SIGTERM)
		return func() { d.launch(f.t) }
	}},
	{"SIGSTOP", false, 15 * time.Second, func(f *fleet, d *fleetDaemon) func() {
		d.p.Pause(f.t)
		return func() { d.p.Resume(f.t) }
	}},
	{"etcd says nothing, and all of it later", false, 15 * time.Second, func(f *fleet, d *fleetDaemon) func() {
		d.cut(redistest.Hold)
		return func() { d.cut(redistest.Pass) }
	}},
	{"what etcd answers is lost", false, 15 * time.Second, func(f *fleet, d *fleetDaemon) func() {
		for _, door := range d.doors {
			door.Answers(redistest.Drop)
		}
		return func() {
			d.cut(redistest.Pass)
			for _, door := range d.doors {
				door.Cut()
			}
		}
	}},
	{"demote", false, 0, func(f *fleet, d *fleetDaemon) func() {
		if why := f.demote(d.address()); why != "" {
			f.t.Log(why) // it may lead nothing
		}
		return nil
	}},
	{"upgrade", false, 10 * time.Second, func(f *fleet, d *fleetDaemon) func() { return d.upgrade(f) }},
	{"its clock jumps", false, 15 * time.Second, func(f *fleet, d *fleetDaemon) func() {
		d.shift(f.t, far())
		return func() { d.shift(f.t, 0) }
	}},
	{"kill -9, and a start with a clock that is wrong", false, 15 * time.Second, func(f *fleet, d *fleetDaemon) func() {
		d.end(f.t, syscall.SIGKILL)
		d.off = far()
		d.launch(f.t)
		return func() { d.shift(f.t, 0) }
	}},
	{"etcd's leader is killed", true, 10 * time.Second, func(f *fleet, _ *fleetDaemon) func() {
		m := etcdtest.Leader(f.members)
		m.Kill()
		return m.LaunchOnly
	}},
	{"etcd's leader stands still", true, 15 * time.Second, func(f *fleet, _ *fleetDaemon) func() {
		m := etcdtest.Leader(f.members)
		m.Pause()
		return m.Resume
	}},
}

const chaosMinutes = "KATSUBUSHI_CHAOS_MINUTES"

// far is how much a clock goes wrong.
func far() time.Duration { return []time.Duration{-1, 1}[rand.IntN(2)] * time.Hour }

// TestStrictChaos lets random faults strike a fleet for KATSUBUSHI_CHAOS_MINUTES. KATSUBUSHI_SEED repeats
// which, though not when.
func TestStrictChaos(t *testing.T) {
	minutes, err := strconv.ParseFloat(os.Getenv(chaosMinutes), 64)
	if err != nil {
		t.Skip("make chaos-sequences runs it: KATSUBUSHI_CHAOS_MINUTES is not set")
	}
	seed, err := strconv.ParseUint(os.Getenv("KATSUBUSHI_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("KATSUBUSHI_SEED=%d, for %v minutes", seed, minutes)
	rnd := rand.New(rand.NewPCG(seed, 0))
	f := startFleet(t, 3, 3)
	f.pause = 20 * time.Millisecond // a sample: all of it would not fit into memory
	f.ask(13, 9)
	f.servedByAll("at first")
	type heal struct {
		at   time.Time
		part string
		end  func()
	}
	var heals []heal
	struck, counts := map[string]bool{}, map[string]int{}
	over := time.Now().Add(time.Duration(minutes * float64(time.Minute)))
	for now := time.Now(); now.Before(over) || len(heals) > 0; now = time.Now() {
		time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
		var later []heal
		for _, h := range heals {
			if now.Before(over) && h.at.After(now) {
				later = append(later, h)
				continue
			}
			t.Logf("%8.3f  %s is healed", time.Since(f.began).Seconds(), h.part)
			h.end()
			delete(struck, h.part)
		}
		heals = later
		fault, d := strictFaults[rnd.IntN(len(strictFaults))], f.daemons[rnd.IntN(len(f.daemons))]
		part, lasts := d.name, time.Duration(rnd.Float64()*float64(fault.lasts))
		if fault.etcd {
			part = "etcd"
		}
		if struck[part] || !now.Before(over) || !fault.etcd && d.address() == "" {
			continue
		}
		t.Logf("%8.3f  %s: %s, for %v", time.Since(f.began).Seconds(), part, fault.name, lasts.Round(time.Millisecond))
		counts[fault.name]++
		if end := fault.on(f, d); end != nil {
			struck[part] = true
			heals = append(heals, heal{now.Add(lasts), part, end})
		}
	}
	f.servedByAll("after all faults")
	f.stop()
	f.logSilence(time.Second)
	t.Logf("%v; %d upgrades were done", counts, f.upgrades)
}
