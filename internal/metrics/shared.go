package metrics

import (
	"bytes"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sharedFor is how long an exposition is shown to whoever asks. With thousands of names one takes some
// 10 ms of a processor, which clients would miss.
const sharedFor = time.Second

// formats is how many forms of an exposition are kept: text or protobuf, compressed or not.
const formats = 4

// A shared handler collects once in sharedFor at most, and makes one answer at a time, however many ask.
// Those who ask in the same form get the same bytes.
type shared struct {
	http.Handler                        // makes an answer of what collected says
	gather       prometheus.Gatherer    // reads the figures
	turn         chan struct{}          // has room for one: who reads and writes what follows
	until        time.Time              // it counts
	families     []*dto.MetricFamily    // what was collected
	err          error                  // of that
	answers      map[string]*exposition // by what the request says of its form
}

// An exposition is an answer. Nobody changes it.
type exposition struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newShared(gather prometheus.Gatherer, handler func(prometheus.Gatherer) http.Handler) *shared {
	s := &shared{gather: gather, turn: make(chan struct{}, 1)}
	s.Handler = handler(prometheus.GathererFunc(s.collected))
	return s
}

// collected returns what was collected last, and collects if that is too old. The turn is the caller's.
func (s *shared) collected() ([]*dto.MetricFamily, error) {
	if time.Now().After(s.until) {
		s.families, s.err = s.gather.Gather()
		s.until, s.answers = time.Now().Add(sharedFor), map[string]*exposition{}
	}
	return s.families, s.err
}

// ServeHTTP answers, or returns without an answer if the client goes away before its turn.
func (s *shared) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := s.answer(r)
	if e == nil {
		return
	}
	maps.Copy(w.Header(), e.header)
	w.Header().Set("Content-Length", strconv.Itoa(e.body.Len()))
	w.WriteHeader(e.status)
	w.Write(e.body.Bytes())
}

// answer returns the answer to a request, or nil if the client goes away first. It has the turn no longer
// than that takes: a client that reads slowly keeps nobody waiting.
func (s *shared) answer(r *http.Request) *exposition {
	select {
	case s.turn <- struct{}{}:
	case <-r.Context().Done():
		return nil
	}
	defer func() { <-s.turn }()
	s.collected()
	form := r.URL.RawQuery + "\n" + r.Header.Get("Accept") + "\n" + r.Header.Get("Accept-Encoding")
	if e := s.answers[form]; e != nil {
		return e
	}
	e := &exposition{header: http.Header{}, status: http.StatusOK}
	s.Handler.ServeHTTP(e, r)
	if len(s.answers) < formats {
		s.answers[form] = e
	}
	return e
}

// Header implements http.ResponseWriter, as the next two do.
func (e *exposition) Header() http.Header { return e.header }

// Write collects the body.
func (e *exposition) Write(b []byte) (int, error) { return e.body.Write(b) }

// WriteHeader notes the status.
func (e *exposition) WriteHeader(status int) { e.status = status }
