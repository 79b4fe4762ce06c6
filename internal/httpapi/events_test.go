package httpapi

import (
	"errors"
	"log/slog"
	"math"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/events"
)

func TestDebugEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := new(events.Log)
		h := NewDebugServer(false, true, kept, nil).Handler
		ask := func(target, accept string) (int, string) {
			r := httptest.NewRequest("GET", target, nil)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		if _, body := ask("/debug/events", "application/json"); body != "[]\n" {
			t.Errorf("no event: %q", body)
		}
		time.Sleep(time.Until(time.Date(2026, 3, 4, 5, 6, 7, 89e6, time.FixedZone("far", 9*3600))))
		log := slog.New(kept.Handler(slog.DiscardHandler))
		log.Info("lease", "lane", 0, "state", "serving", "took", 1500*time.Millisecond, "none", "")
		time.Sleep(time.Second)
		log.Warn("two\nlines \x1b[31m", "error", errors.New("no \"route\""), "until", time.Now(), "share", math.Inf(1),
			"rate", 0.5)
		for _, c := range []struct {
			target, accept string
			status         int
			want           string
		}{
			{"/debug/events", "", 200, `2026-03-03T20:06:08.089Z WARN  "two\nlines \x1b[31m" error="no \"route\"" until=2026-03-03T20:06:08.089Z share=+Inf rate=0.5
2026-03-03T20:06:07.089Z INFO  lease lane=0 state=serving took=1.5s none=""
`},
			{"/debug/events?n=1", "application/json", 200,
				`[{"time":"2026-03-03T20:06:08.089Z","level":"WARN","text":"two\nlines \u001b[31m",` +
					`"attrs":{"error":"no \"route\"","rate":0.5,"share":"+Inf","until":"2026-03-03T20:06:08.089Z"}}]` + "\n"},
			{"/debug/events?n=0", "", 400, "n=\"0\": 1 to 200 allowed\n"},
			{"/debug/events?n=201", "", 400, "n=\"201\": 1 to 200 allowed\n"},
			{"/debug/events?n=x", "", 400, "n=\"x\": 1 to 200 allowed\n"},
		} {
			if status, body := ask(c.target, c.accept); status != c.status || body != c.want {
				t.Errorf("%s (%s): %d\n%s\nwant %d\n%s", c.target, c.accept, status, body, c.status, c.want)
			}
		}
		if _, body := ask("/debug/events?n=2", "application/json"); len(body) < 200 {
			t.Errorf("both: %s", body)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/debug/events", nil))
		if w.Code != 405 {
			t.Errorf("POST: %d", w.Code)
		}
	})
}
