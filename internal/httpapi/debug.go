package httpapi

import (
	"log"
	"net/http"
	"net/http/pprof"
	"runtime"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/events"
)

// DebugConnections is the connection limit of the debug port.
const DebugConnections = 16

// NewDebugServer makes the server of /debug/events, and of /debug/pprof/ and /debug/stats, each only if
// asked for. It shows memory contents and can slow the process down: its listener belongs on the loopback
// interface.
func NewDebugServer(withPprof, withStats bool, events *events.Log, log *log.Logger) Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/events", func(w http.ResponseWriter, r *http.Request) { showEvents(w, r, events) })
	if withPprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	if withStats {
		mux.Handle("GET /debug/stats", &runtimeStats{})
	}
	s := Limited(mux, DebugConnections, new(Counters), log)
	s.ReadTimeout, s.WriteTimeout = 0, 0 // a profile takes as long as it was asked to
	s.conns.maxBody = 1 << 20            // addresses whose symbols pprof wants
	return s
}

// runtimeStats answers what fukata/golang-stats-api-handler answers in kayac/go-katsubushi: the Go
// runtime's figures, under its names.
type runtimeStats struct {
	mu        sync.Mutex
	last      time.Time // of the request before this one: the rates below are since then
	lastGC    uint32
	lastPause uint64
}

type runtimeFigures struct {
	Time             int64   `json:"time"` // Unix ns
	GoVersion        string  `json:"go_version"`
	GoOS             string  `json:"go_os"`
	GoArch           string  `json:"go_arch"`
	CPUs             int     `json:"cpu_num"`
	Goroutines       int     `json:"goroutine_num"`
	GOMAXPROCS       int     `json:"gomaxprocs"`
	CgoCalls         int64   `json:"cgo_call_num"`
	MemoryAlloc      uint64  `json:"memory_alloc"`
	MemoryTotalAlloc uint64  `json:"memory_total_alloc"`
	MemorySys        uint64  `json:"memory_sys"`
	MemoryLookups    uint64  `json:"memory_lookups"`
	MemoryMallocs    uint64  `json:"memory_mallocs"`
	MemoryFrees      uint64  `json:"memory_frees"`
	Stack            uint64  `json:"memory_stack"`
	HeapAlloc        uint64  `json:"heap_alloc"`
	HeapSys          uint64  `json:"heap_sys"`
	HeapIdle         uint64  `json:"heap_idle"`
	HeapInuse        uint64  `json:"heap_inuse"`
	HeapReleased     uint64  `json:"heap_released"`
	HeapObjects      uint64  `json:"heap_objects"`
	GCNext           uint64  `json:"gc_next"`
	GCLast           uint64  `json:"gc_last"`
	GCs              uint32  `json:"gc_num"`
	GCPerSecond      float64 `json:"gc_per_second"`
	// ms of pause, by that library's arithmetic since the last request
	PausePerSecond float64   `json:"gc_pause_per_second"`
	Pauses         []float64 `json:"gc_pause"` // ms, of the collections since the last request, newest first
}

func (s *runtimeStats) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	now := time.Now()
	f := runtimeFigures{
		Time: now.UnixNano(), GoVersion: runtime.Version(), GoOS: runtime.GOOS, GoArch: runtime.GOARCH,
		CPUs: runtime.NumCPU(), Goroutines: runtime.NumGoroutine(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		CgoCalls:    runtime.NumCgoCall(),
		MemoryAlloc: m.Alloc, MemoryTotalAlloc: m.TotalAlloc, MemorySys: m.Sys, MemoryLookups: m.Lookups,
		MemoryMallocs: m.Mallocs, MemoryFrees: m.Frees, Stack: m.StackInuse,
		HeapAlloc: m.HeapAlloc, HeapSys: m.HeapSys, HeapIdle: m.HeapIdle, HeapInuse: m.HeapInuse,
		HeapReleased: m.HeapReleased, HeapObjects: m.HeapObjects,
		GCNext: m.NextGC, GCLast: m.LastGC, GCs: m.NumGC, Pauses: []float64{},
	}
	const ms = float64(time.Millisecond)
	if !s.last.IsZero() {
		f.PausePerSecond = float64(m.PauseTotalNs-s.lastPause) / ms
		f.GCPerSecond = float64(m.NumGC-s.lastGC) / now.Sub(s.last).Seconds()
	}
	for i := range min(m.NumGC-s.lastGC, uint32(len(m.PauseNs))) {
		f.Pauses = append(f.Pauses, float64(m.PauseNs[(m.NumGC-i+255)%256])/ms)
	}
	s.last, s.lastGC, s.lastPause = now, m.NumGC, m.PauseTotalNs
	writeJSON(w, f)
}
