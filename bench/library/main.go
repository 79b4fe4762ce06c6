// Command library measures what an id costs inside a Go program: with the library, beside others that need no server,
// and beside reading the clock, which each of them does. It prints medians of rounds in which they take turns.
//
// The layout of the measured ids has 22 bits of sequence, so that nothing waits for the clock: the default one has
// 4,096 ids a millisecond and lane.
package main

import (
	"context"
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
}

func main() {
	testing.Init()
	rounds := flag.Int("rounds", 9, "rounds over all; the medians are of these")
	window := flag.Duration("window", 200*time.Millisecond, "length of each measurement")
	flag.Parse()
	if err := flag.Set("test.benchtime", window.String()); err != nil {
		log.Fatal(err)
	}
	subjects, done := prepare()
	defer done()
	times, allocations := make([][]float64, len(subjects)), make([]int64, len(subjects))
	for range *rounds {
		for i, s := range subjects {
			r := testing.Benchmark(func(b *testing.B) {
				b.ReportAllocs()
				s.run(b.N)
			})
			times[i] = append(times[i], float64(r.T.Nanoseconds())/float64(r.N)/float64(s.ids))
			allocations[i] = r.AllocsPerOp()
		}
	}
	report(subjects, times, allocations)
}

// report prints the table.
func report(subjects []subject, times [][]float64, allocations []int64) {
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	clock := median(times[0])
	fmt.Printf("%s %s/%s, %d CPUs\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	fmt.Print("| | ns an id | of reading the clock | allocations a call |\n|---|---:|---:|---:|\n")
	for i, s := range subjects {
		ns, note := median(times[i]), ""
		if s.waits {
			note = " (its own limit)"
		}
		fmt.Printf("| %s | %.3g%s | %.2fx | %d |\n", s.name, ns, note, ns/clock, allocations[i])
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
	sequence, err := ids.Name(ctx, "orders sequence batch=1000000")
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
	subjects = []subject{
		{name: "reading the clock", run: repeat(func() { time.Since(begin) })},
		{name: "katsubushi ID", run: one(ids)},
		{name: "katsubushi ID, 8 goroutines", run: inParallel(8, one(ids))},
		{name: fmt.Sprintf("katsubushi IDs(%d)", batch), ids: batch, run: repeat(func() {
			_, err := ids.IDs(ctx, batch)
			must(err)
		})},
		{name: fmt.Sprintf("making a slice of %d", batch), ids: batch, run: repeat(func() { made = make([]uint64, batch) })},
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
		must(ids.Close())
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
