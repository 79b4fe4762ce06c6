package latency

import "time"

// A Sampler decides which turns are measured: the first one, then one in sixteen and a half on average, at
// random distances, so that no pattern among the clients can hide from it; and each one that begins at
// least quietGap after the one before, which costs nothing on a loop with so little to do. It belongs to
// one goroutine. Without a Histogram it measures nothing.
type Sampler struct {
	Histogram *Histogram
	last      int64         // when the last turn began, ms
	began     time.Duration // of the turn that is being measured
	pending   uint32        // answers that no measured turn stands for yet
	fresh     uint32        // those of the turn that is being measured
	took      time.Duration // by the last turn that was measured
	wait      uint16        // turns until the next one is measured
	random    uint16
	measuring bool
}

// quietGap is in ms.
const quietGap = 2

// Begins tells that a turn begins: its input has just been read. now is the time in ms, of any clock.
func (s *Sampler) Begins(now int64) {
	quiet := now-s.last >= quietGap
	s.last = now
	if s.wait > 0 && !quiet {
		s.wait--
		return
	}
	s.begins()
}

// begins is apart so that Begins is inlined.
func (s *Sampler) begins() {
	if s.Histogram != nil {
		s.measuring, s.began = true, Clock()
	}
}

// Answered tells of an answer to what was read in this turn.
func (s *Sampler) Answered() { s.fresh++ }

// Ends tells that the answers of the turn are handed to the kernel, or will be next. A turn without any
// measures nothing, and the next one is tried.
func (s *Sampler) Ends() {
	switch {
	case s.fresh == 0 && s.measuring:
		s.measuring, s.wait = false, 0
	case s.fresh == 0:
	case s.measuring:
		s.ends()
	default:
		s.pending += s.fresh
		s.fresh = 0
	}
}

func (s *Sampler) ends() {
	s.took = Clock() - s.began
	s.Histogram.Observe(s.took, int(s.pending+s.fresh))
	s.measuring, s.pending, s.fresh = false, 0, 0
	s.random = s.random*25173 + 13849 // a full period of 65536
	s.wait = s.random >> 11           // 0 to 31
}

// Flush counts the answers that no measured turn stands for yet: as if they had taken as long as the last
// measured one. It is for a Sampler that is not used any more.
func (s *Sampler) Flush() {
	if s.Histogram != nil && s.pending > 0 {
		s.Histogram.Observe(s.took, int(s.pending))
		s.pending = 0
	}
}

// Waited counts an answer that took longer than its turn: since began, a reading of Clock.
func (s *Sampler) Waited(began time.Duration) {
	if s.Histogram != nil {
		s.Histogram.Observe(Clock()-began, 1)
	}
}

var start = time.Now()

// Clock returns the time since the program began, by the monotonic clock.
func Clock() time.Duration { return time.Since(start) }
