// Command library measures what an id costs inside a Go program: with the library, beside others that need no server,
// and beside reading the clock, which each of them does. It prints medians of rounds in which they take turns.
//
// The layout of the measured ids has 22 bits of sequence, so that nothing waits for the clock: the default one has
// 4,096 ids a millisecond and lane. The floor of IDs is a slice, made and filled from one reading of the clock: nothing
// that gives its caller memory of its own is below it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"
	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
	"github.com/rs/xid"
	"github.com/sony/sonyflake/v2"
)

// batch is how many ids one call of IDs is asked for.
const batch = 100

// A subject makes n ids.
type subject struct {
	name  string
	ids   int // of one call
	run   func(n int)
	waits bool // its time is that of its own limit

	calls       int // of a measurement
	allocations float64
	ns          []float64 // an id
}

func main() {
	rounds := flag.Int("rounds", 99, "rounds over all; the medians are of these")
	window := flag.Duration("window", 10*time.Millisecond, "length of each measurement")
	flag.Parse()
	subjects, done := prepare()
	defer done()
	for i := range subjects {
		subjects[i].calibrate(*window)
	}
	for range *rounds {
		for i := range subjects {
			subjects[i].measure()
		}
	}
	report(subjects)
}

// calibrate finds how many calls take about so long, and how many allocations each makes. The first call may wait.
func (s *subject) calibrate(window time.Duration) {
	for s.calls = 1; min(s.time(), s.time()) < window; s.calls *= 2 {
	}
	s.allocations = testing.AllocsPerRun(1, func() { s.run(s.calls) }) / float64(s.calls)
}

func (s *subject) measure() {
	s.ns = append(s.ns, float64(s.time().Nanoseconds())/float64(s.calls*s.ids))
}

// time returns how long the calls take.
func (s *subject) time() time.Duration {
	began := time.Now()
	s.run(s.calls)
	return time.Since(began)
}

// report prints the table. Where other programs take the processor away, the least is nearer the truth.
func report(subjects []subject) {
	fmt.Printf("%s %s/%s, %d CPUs\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	fmt.Print("| | ns an id | of reading the clock | the least | allocations a call |\n|---|---:|---:|---:|---:|\n")
	var clock float64
	for _, s := range subjects {
		slices.Sort(s.ns)
		ns, note := s.ns[len(s.ns)/2], ""
		if clock == 0 {
			clock = ns
		}
		if s.waits {
			note = " (its own limit)"
		}
		fmt.Printf("| %s | %.3g%s | %.2fx | %.3g | %.0f |\n", s.name, ns, note, ns/clock, s.ns[0], s.allocations)
	}
}

// prepare makes the subjects; the first one reads the clock.
func prepare() (subjects []subject, done func()) {
	dir, err := os.MkdirTemp("", "library")
	must(err)
	counters, err := file.Open(file.Config{Dir: filepath.Join(dir, "counters"), AnyDisk: true})
	must(err)
	layout := generator.Katsubushi()
	layout.TimeBits, layout.SequenceBits, layout.WorkerBits = 37, 22, 4
	layout.Epoch = time.Now().Add(-time.Hour).UnixMilli()
	ctx := context.Background()
	ids, err := katsubushi.Open(ctx, katsubushi.Config{
		Store: static.Dir(dir, 1), Layout: layout, Counters: counters,
	})
	must(err)
	wide, err := katsubushi.Open(ctx, katsubushi.Config{Store: static.Dir(dir, 2, 3, 4, 5, 6, 7, 8, 9), Layout: layout})
	must(err)
	sequence, err := ids.Name(ctx, "orders sequence batch=10000000")
	must(err)
	one := func(s katsubushi.Source) func(n int) {
		return func(n int) {
			for range n {
				_, err := s.ID(ctx)
				must(err)
			}
		}
	}
	node, err := snowflake.NewNode(1)
	must(err)
	sonyflake, err := sonyflake.New(sonyflake.Settings{MachineID: func() (int, error) { return 1, nil }})
	must(err)
	begin := time.Now()
	clock := repeat(func() { time.Since(begin) })
	subjects = []subject{
		{name: "reading the clock", run: clock},
		{name: "reading the clock, 8 goroutines", run: inParallel(8, clock)},
		{name: "katsubushi ID", run: one(ids)},
		{name: "katsubushi ID, 8 goroutines on one lane", run: inParallel(8, one(ids))},
		{name: "katsubushi ID, 8 lanes", run: one(wide)},
		{name: "katsubushi ID, 8 goroutines on 8 lanes", run: inParallel(8, one(wide))},
		{name: fmt.Sprintf("katsubushi IDs(%d)", batch), ids: batch, run: repeat(func() {
			_, err := ids.IDs(ctx, batch)
			must(err)
		})},
		{name: fmt.Sprintf("making a slice of %d", batch), ids: batch, run: repeat(func() { made = make([]uint64, batch) })},
		{name: "the same, filled from one reading of the clock", ids: batch, run: repeat(func() {
			ids := make([]uint64, batch)
			v := uint64(time.Since(begin))
			for i := range ids {
				ids[i] = v
				v++
			}
			made = ids
		})},
		{name: "katsubushi, a sequence", run: one(sequence)},
		{name: "google/uuid, version 7", run: repeat(func() {
			_, err := uuid.NewV7()
			must(err)
		})},
		{name: "rs/xid", run: repeat(func() { xid.New() })},
		{name: "bwmarrin/snowflake", waits: true, run: repeat(func() { node.Generate() })},
		{name: "sony/sonyflake", waits: true, run: repeat(func() {
			_, err := sonyflake.NextID()
			must(err)
		})},
	}
	for i := range subjects {
		subjects[i].ids = max(1, subjects[i].ids)
	}
	return subjects, func() {
		must(errors.Join(ids.Close(), wide.Close()))
		must(os.RemoveAll(dir))
	}
}

// made keeps the compiler from leaving out what nobody reads.
var made []uint64

func repeat(f func()) func(n int) {
	return func(n int) {
		for range n {
			f()
		}
	}
}

// inParallel shares the work among goroutines.
func inParallel(goroutines int, run func(n int)) func(n int) {
	return func(n int) {
		var all sync.WaitGroup
		for range goroutines {
			all.Go(func() { run((n + goroutines - 1) / goroutines) })
		}
		all.Wait()
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
