package page

import (
	"context"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
)

// Trouble is something that should not happen, and is counted when it does.
type Trouble int

const (
	NoWorkerID         Trouble = iota // ids refused: no lane has a worker id
	LeaseExpired                      // ids refused: a window is used up
	ClockBehind                       // ids refused: the clock went back
	RateExceeded                      // ids refused: the layout has no more
	TimeFieldEnd                      // ids refused: the layout has ended
	NamesRefused                      // values of sequences refused
	ConnectionsRefused                // at the limit
	HTTPRefused                       // at the limit of the HTTP port
	MemoryClosed                      // connections closed for what they hold
	AcceptErrors                      // connections that could not be accepted
	LogDropped                        // log lines that could not be written in time
	LoginErrors                       // logins that failed
	StoreFailed                       // calls of the store that ended with an error or without an answer
	StoreLost                         // leases that somebody else has
	ClockStepped                      // steps of the host's clock
	AnnounceErrors                    // writes of announcements that failed
	NumTroubles                       // how many kinds there are
)

// A Sample is what the daemon has counted up to one moment. Counts only grow.
type Sample struct {
	At          time.Time // with its monotonic reading
	IDs         uint64
	Requests    uint64
	Connections int64
	Troubles    [NumTroubles]uint64
	Process     Process

	Latency *latency.Snapshot // nil = not known, or no longer kept
	p99     time.Duration     // of the answers since the sample before; 0 = there were none
}

const (
	// Every is the time between two samples.
	Every = 5 * time.Second
	// Span is how far back the charts go.
	Span = 10 * time.Minute

	samples = int(Span/Every) + 1
	// Snapshots of latency are large; those of the last minute are kept, and the one before them.
	snapshots = int(time.Minute/Every) + 2
)

// A History is a ring of samples. Run writes it; any goroutine may read it.
type History struct {
	mu   sync.Mutex
	ring [samples]Sample
	n    int // samples so far; the newest is at (n-1) % samples
}

// Run takes a sample at once and then each Every, until ctx ends. next returns how long it is until the next
// moment of a period.
func (h *History) Run(ctx context.Context, next func(time.Duration) time.Duration, read func() Sample) {
	timer := time.NewTimer(next(Every))
	defer timer.Stop()
	for {
		h.add(read())
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			timer.Reset(next(Every))
		}
	}
}

func (h *History) add(s Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n > 0 {
		before := &h.ring[(h.n-1)%samples]
		if s.Latency != nil && before.Latency != nil {
			s.p99 = s.Latency.Since(*before.Latency).Quantile(0.99)
		}
	}
	h.ring[h.n%samples] = s
	if h.n++; h.n > snapshots {
		h.ring[(h.n-snapshots-1)%samples].Latency = nil
	}
}

// all returns the samples of the last Span, the oldest first; the caller's own copy.
func (h *History) all(now time.Time) []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]Sample, 0, samples)
	for i := max(0, h.n-samples); i < h.n; i++ {
		if s := h.ring[i%samples]; now.Sub(s.At) <= Span+Every {
			list = append(list, s)
		}
	}
	return list
}

// before returns the newest sample that is at least d old, or the oldest; nil if there is none.
func before(list []Sample, now time.Time, d time.Duration) (since *Sample) {
	for i := range list {
		if since != nil && now.Sub(list[i].At) < d {
			break
		}
		since = &list[i]
	}
	return since
}

// lastMinute returns the latency of the answers of the last minute; nil if it is not known.
func lastMinute(list []Sample, now *Sample) *latency.Snapshot {
	since := before(list, now.At, time.Minute)
	if since == nil || since.Latency == nil || now.Latency == nil {
		return nil
	}
	s := now.Latency.Since(*since.Latency)
	return &s
}

// growth returns how much each trouble grew in the last d, up to now.
func growth(list []Sample, now *Sample, d time.Duration) (grown [NumTroubles]uint64) {
	since := before(list, now.At, d)
	if since == nil {
		return grown
	}
	for i := range grown {
		grown[i] = now.Troubles[i] - min(since.Troubles[i], now.Troubles[i])
	}
	return grown
}

// A point is a value at a time before now.
type point struct {
	ago   time.Duration
	value float64
}

// rates returns how fast a count grew between each two samples, per second.
func rates(list []Sample, now time.Time, count func(*Sample) uint64) (points []point) {
	for i := 1; i < len(list); i++ {
		before, after := &list[i-1], &list[i]
		if d := after.At.Sub(before.At).Seconds(); d > 0 {
			points = append(points, point{now.Sub(after.At), float64(count(after)-min(count(before), count(after))) / d})
		}
	}
	return points
}

// levels returns what a figure was at each sample.
func levels(list []Sample, now time.Time, level func(*Sample) float64) (points []point) {
	for i := range list {
		points = append(points, point{now.Sub(list[i].At), level(&list[i])})
	}
	return points
}
