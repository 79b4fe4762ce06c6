package metrics

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
)

// TestScrapesShareAnExposition: however many ask, and in whatever form, the figures are read once a second,
// by one at a time, and each form is written once.
func TestScrapesShareAnExposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := uint64(0) // written without a lock: the race detector sees two at a time
		h := Handler(time.Time{}, func(emit func(figure.Figure)) {
			reads++
			time.Sleep(100 * time.Millisecond)
			emit(figure.Figure{Metric: "ids_issued_total", Value: reads, Count: true, Help: "Ids."})
		})
		writes := new(countingHandler)
		writes.Handler, h.(*shared).Handler = h.(*shared).Handler, writes
		scrape := func(encoding string) string {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil)
			r.Header.Set("Accept-Encoding", encoding)
			h.ServeHTTP(w, r)
			body := io.Reader(w.Body)
			if got := w.Header().Get("Content-Length"); got != fmt.Sprint(w.Body.Len()) {
				t.Errorf("Content-Length: %s of %d", got, w.Body.Len())
			}
			if encoding == "gzip" {
				var err error
				if body, err = gzip.NewReader(w.Body); err != nil {
					t.Errorf("%v: %v", w.Header(), err)
					return ""
				}
			}
			text, err := io.ReadAll(body)
			if err != nil || w.Code != http.StatusOK {
				t.Errorf("%d, %v", w.Code, err)
			}
			return string(text)
		}
		for second := range uint64(3) {
			var scrapers sync.WaitGroup
			for i := range 16 {
				scrapers.Go(func() {
					text := scrape([]string{"gzip", ""}[i%2])
					if want := fmt.Sprintf("\nkatsubushi_ids_issued_total %d\n", second+1); !strings.Contains(text, want) {
						t.Errorf("second %d: no %q in %s", second, want, text)
					}
				})
			}
			scrapers.Wait()
			scrape("")
			if want := int(second+1) * 2; writes.n != want {
				t.Errorf("second %d: %d forms were written, want %d", second, writes.n, want)
			}
			time.Sleep(sharedFor + 1)
		}
		for n := range 10 * formats { // nobody fills the memory by asking in ever new forms
			scrape(fmt.Sprint("form ", n))
		}
		if n := len(h.(*shared).answers); n > formats {
			t.Errorf("%d forms are kept", n)
		}
	})
}

// countingHandler counts its requests. They come one at a time.
type countingHandler struct {
	http.Handler
	n int
}

func (c *countingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.n++
	c.Handler.ServeHTTP(w, r)
}

// TestScrapesWaitForNoClient: not for one that takes nothing of its answer; and one that goes away while it
// waits for its turn waits no more.
func TestScrapesWaitForNoClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(time.Time{}, func(func(figure.Figure)) { time.Sleep(time.Minute) })
		ask := func(w http.ResponseWriter, ctx context.Context) <-chan struct{} {
			answered := make(chan struct{})
			go func() {
				h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil).WithContext(ctx))
				close(answered)
			}()
			synctest.Wait()
			return answered
		}
		deaf := deafWriter{httptest.NewRecorder(), make(chan struct{})}
		slow := ask(deaf, t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		gone := ask(httptest.NewRecorder(), ctx)
		began := time.Now()
		cancel()
		if <-gone; time.Since(began) > 0 {
			t.Errorf("one that had gone waited for %v", time.Since(began))
		}
		if <-ask(httptest.NewRecorder(), t.Context()); time.Since(began) > time.Minute {
			t.Errorf("one waited for %v", time.Since(began))
		}
		close(deaf.listens)
		<-slow
	})
}

// A deafWriter takes the body only later.
type deafWriter struct {
	*httptest.ResponseRecorder
	listens chan struct{}
}

func (w deafWriter) Write(b []byte) (int, error) {
	<-w.listens
	return w.ResponseRecorder.Write(b)
}
