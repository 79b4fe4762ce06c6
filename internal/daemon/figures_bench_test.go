package daemon

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// BenchmarkFigures is what operators read, of a daemon with 1,000 sequences.
func BenchmarkFigures(b *testing.B) {
	c := testConfig()
	c.StateDir, c.AnyDisk, c.Counters.Dir = b.TempDir(), true, filepath.Join(b.TempDir(), "counters")
	d, err := New(b.Context(), c)
	if err != nil {
		b.Fatal(err)
	}
	defer d.windows.Stop(true)
	defer d.names.Stop()
	for i := range 1000 {
		def := counter.Sequence(fmt.Sprint("name", i))
		k := issuer.NewSequence(issuer.SequenceConfig{
			Definition: def, MaxWait: time.Second, Ring: func() {}, Wake: func() {},
			Status: func() counter.Status { return counter.Status{Left: 1000, Block: 10, DaysLeft: 50} },
		})
		d.names.Catalog.Declare([]issuer.Declared{{Definition: kinds.Declared(counter.Definition{Name: def.Name}),
			From: k}})
	}
	for name, read := range map[string]func(){
		"metrics": func() {
			d.overHTTP().Metrics.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
		},
		"stats":            func() { d.observer.Stats(nil, func(string, string) {}) },
		"stats generators": func() { d.observer.Stats([]byte("generators"), func(string, string) {}) },
		"page":             func() { d.observer.View() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
