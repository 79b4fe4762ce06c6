package daemon

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
)

// TestReadyzNamesLanesThatDoNotServe: also while others issue ids.
func TestReadyzNamesLanesThatDoNotServe(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, dir)
		defer stop()
		w := httptest.NewRecorder()
		httpapi.NewServer(d.overHTTP()).Handler.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		if want := "ready\nlane 2: acquiring for 5s: no worker id is free\n"; w.Code != 200 || w.Body.String() != want {
			t.Errorf("%d\n%s\nwant 200\n%s", w.Code, w.Body, want)
		}
	})
}
