package katsubushi_test

import (
	"sync"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// Benchmark measures ids of a layout that does not run out of them, beside what reading the clock costs:
// go test -run xxx -bench . .
func Benchmark(b *testing.B) {
	wide := generator.Katsubushi()
	wide.TimeBits, wide.SequenceBits, wide.WorkerBits = 37, 22, 4
	wide.Epoch = time.Now().Add(-time.Hour).UnixMilli()
	ids, err := katsubushi.Open(b.Context(), katsubushi.Config{Store: static.Dir(b.TempDir(), 13), Layout: wide})
	if err != nil {
		b.Fatal(err)
	}
	defer ids.Close()
	b.Run("clock", func(b *testing.B) {
		base := time.Now()
		for range b.N {
			time.Since(base)
		}
	})
	b.Run("ID", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := ids.ID(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ID/8", func(b *testing.B) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range b.N / 8 {
					if _, err := ids.ID(b.Context()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	})
	b.Run("IDs/100", func(b *testing.B) {
		for range b.N {
			if _, err := ids.IDs(b.Context(), 100); err != nil {
				b.Fatal(err)
			}
		}
	})
}
