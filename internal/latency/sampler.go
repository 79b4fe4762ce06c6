package latency

import "time"

// A Sampler decides which turns are measured: the first one, then one in sixteen and a half on average, at
// random distances, so that no pattern among the clients can hide from it; and each one that begins at
// least quietGap after the one before, which costs nothing on a loop with so little to do. It belongs to
// one goroutine. Without a Histogram it measures nothing.
type Sampler struct {
	Histogram *Histogram
	Asked     *Asked        // whose answers they are; nil = nobody wants to know
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
		s.Asked.listen(s)
	}
}

// Resumes tells that a session is asked next that has waited.
func (s *Sampler) Resumes() { s.Asked.listen(s) }

// Waits tells that a session waits, or has no answer to what it waited for.
func (s *Sampler) Waits() {
	s.Asked.drop(s.fresh)
	s.Asked.goOn(s.measuring)
}

// Answered tells of an answer to what was read in this turn.
func (s *Sampler) Answered() { s.fresh++ }

// Ends tells that the answers of the turn are handed to the kernel, or will be next. A turn without any
// measures nothing, and the next one is tried.
func (s *Sampler) Ends() {
	switch {
	case s.fresh == 0 && s.measuring:
		s.measuring, s.wait = false, 0
		s.Asked.drop(0)
		s.Asked.goOn(false)
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
	all := int(s.pending + s.fresh)
	s.Histogram.Observe(s.took, all)
	s.Asked.took(s.took, 0, all, int(s.fresh))
	s.Asked.goOn(false)
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
	if s.Histogram == nil {
		return
	}
	took := Clock() - began
	s.Histogram.Observe(took, 1)
	if s.Asked != nil {
		s.Asked.took(took, s.Asked.resumed, 1, 1)
	}
	s.Asked.goOn(s.measuring)
}

var start = time.Now()

// Clock returns the time since the program began, by the monotonic clock.
func Clock() time.Duration { return time.Since(start) }
