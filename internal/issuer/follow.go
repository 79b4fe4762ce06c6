package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/id"
)

// A Forwarder asks other daemons for values.
type Forwarder interface {
	// Last has the daemon at address issue n values in a row of a sequence that it leads, 1 to
	// id.MaxReserve, and returns the last of them. After an error, and when ctx ends, an answer that
	// comes late must reach no client. An error's text is told to clients.
	Last(ctx context.Context, address, name string, n int) (last uint64, err error)
}

// fetch gets values from the leader on another host, or notes the request for the next call to it.
func (s *Strict) fetch(moment int64, n int) (id.Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.standing.Load()
	if st.address == "" { // it has changed
		return id.Run{}, id.ErrWait
	}
	run, err, ok := s.batches.Ask(moment, n)
	switch {
	case err != nil:
		return run, s.told(err)
	case ok:
		return run, nil
	}
	if wait := s.waits(moment); wait >= s.longest() {
		s.batches.Forget(moment, n)
		return run, s.complain(s.noAnswer(st.address, wait))
	}
	s.send(st.address)
	return run, id.ErrWait
}

// told counts and words the refusal that an answer is.
func (s *Strict) told(err error) error {
	if fallen, ok := err.(setBack); ok {
		return s.refuse("sequence %s: %v", s.c.Definition.Name, fallen)
	}
	s.refuses()
	return err
}

func (s *Strict) noAnswer(address string, wait time.Duration) string {
	why := s.failure
	if why == nil {
		why = errors.New("it does not answer")
	}
	return fmt.Sprintf("sequence %s: no value from its leader %s for %.1fs: %v", s.c.Definition.Name, address,
		wait.Seconds(), why)
}

// send starts a call to the leader unless one is under way. The caller holds mu.
func (s *Strict) send(address string) {
	if s.pausing {
		return
	}
	n := s.batches.Send(s.last)
	if n == 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	sent := s.c.Moment()
	limit := s.giveUp(sent, cancel)
	go func() {
		last, err := s.c.Forward.Last(ctx, address, s.c.Definition.Name, n)
		s.waited.Add(s.c.Moment() - sent)
		limit.Stop()
		cancel()
		s.answered(address, n, last, err)
	}()
}

// longest is how long a request waits for an answer of the leader.
func (s *Strict) longest() time.Duration { return max(s.c.MaxWait, leastWait) }

// giveUp ends a call when those that wait for it have waited for too long since it was sent.
func (s *Strict) giveUp(sent int64, cancel func()) (limit *time.Timer) {
	return time.AfterFunc(s.longest(), func() {
		s.mu.Lock()
		left := s.longest() - s.waits(sent)
		s.mu.Unlock()
		if left > 0 { // the process stood still, and the answer may be here
			limit.Reset(left)
			return
		}
		cancel()
	})
}

// saysFinal reports whether a leader of an earlier release says that its refusal will stay: it has no code for that.
func saysFinal(err error, name string) bool {
	return strings.HasPrefix(err.Error(), "ERR sequence "+name+" ")
}

// over returns why a sequence issues nothing any more, for good, if that is what its leader says.
func over(d counter.Definition, err error) error {
	for _, o := range []error{hasEnded(d), isRetired(d)} {
		if err != nil && err.Error() == o.Error() {
			return o
		}
	}
	return nil
}

// answered takes the result of a call to the leader at address, for n values.
func (s *Strict) answered(address string, n int, last uint64, err error) {
	d := s.c.Definition
	if first, ok := s.row.first(last, n); err == nil && !ok {
		err = fmt.Errorf("%d to %d are no values of this sequence", first, last)
	}
	if err != nil && (isFinal(err) || saysFinal(err, d.Name)) {
		_, reason, _ := strings.Cut(err.Error(), " ")
		err = finalRefusal{refusal("%s", reason)}
	}
	over := over(d, err)
	s.mu.Lock()
	s.over = cmp.Or(over, s.over)
	s.cancel = nil
	err = s.batches.Answer(s.c.Moment(), last, err)
	st := s.standing.Load()
	if _, fallen := err.(setBack); fallen {
		s.setBacks.Add(1)
	}
	switch {
	case err == nil:
		s.forwarded.Add(uint64(n))
		s.failure = nil
	case isFinal(err):
		s.failure = nil
	case st.address == address:
		s.failure = err
		s.pausing = true
		time.AfterFunc(retryPause, s.resume)
	}
	if st.address != "" {
		s.send(st.address)
	}
	s.mu.Unlock()
	s.c.Wake()
}

// resume ends a pause.
func (s *Strict) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pausing = false
	if st := s.standing.Load(); st.address != "" {
		s.send(st.address)
	}
}
