package client

import (
	"context"
	"os"
	"sync"
	"testing"
)

// BenchmarkID measures ID against the daemon at KATSUBUSHI_ADDR.
func BenchmarkID(b *testing.B) {
	addr := os.Getenv("KATSUBUSHI_ADDR")
	if addr == "" {
		b.Skip("KATSUBUSHI_ADDR says where a daemon is")
	}
	for _, m := range []struct {
		name   string
		n      int
		config Config
	}{
		{"ids,1", 1, Config{}}, {"ids,100", 100, Config{}}, {"ids,1000", 1000, Config{}},
		{"get,1", 1, Config{GetOnly: true}}, {"get,100", 100, Config{GetOnly: true}},
		{"get,1000", 1000, Config{GetOnly: true}},
		{"ids,prefetch,1", 1, Config{Prefetch: 1000}}, {"ids,prefetch,1000", 1000, Config{Prefetch: 1000}},
		{"ids,prefetch 100,1000", 1000, Config{Prefetch: 100}},
		{"get,prefetch,1", 1, Config{Prefetch: 1000, GetOnly: true}},
		{"get,prefetch,1000", 1000, Config{Prefetch: 1000, GetOnly: true}},
	} {
		b.Run(m.name, func(b *testing.B) {
			c, err := New(Static(addr), m.config)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			if _, err := c.ID(context.Background()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for g := range m.n {
				wg.Go(func() {
					for range (b.N + g) / m.n {
						if _, err := c.ID(context.Background()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(c.Stats().Received)/float64(c.Stats().Requests), "ids/batch")
		})
	}
}
