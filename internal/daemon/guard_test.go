package daemon

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// TestFiguresTellNoIDs: where users must log in, a sequence's last value is not shown to those who need
// not, nor to users who may not get its values. Where nobody must, it is.
func TestFiguresTellNoIDs(t *testing.T) {
	auth := authFile(t, "ann:secret:orders=get", "bob:hidden:id=get,incr;other=get")
	for _, c := range []struct {
		auth, login string
		stats       bool // shows the values
	}{{"", "", true}, {auth, "ann secret", true}, {auth, "bob hidden", false}} {
		d, address := run(t, func(config *Config) {
			config.AuthFile, config.HTTPPort, config.MaxWait = c.auth, redistest.FreePort(t), patience
			config.Counters.Dir, config.AnyDisk = t.TempDir(), true
			config.Definitions = "orders sequence start=5000123 max=7999999"
		})
		if _, err := d.names.Catalog.Batch(t.Context(), []byte("orders"), 2); err != nil {
			t.Fatal(err)
		}
		// tells reports whether a text has the last value, or what is left of 7,999,999 after a block.
		tells := func(text string) bool {
			text = strings.ReplaceAll(text, ",", "")
			return strings.Contains(text, "5000124") || strings.Contains(text, "_left{") ||
				strings.Contains(text, ":left ")
		}
		for _, path := range []string{"/", "/metrics", "/stats", "/readyz"} {
			for _, accept := range []string{"text/html", "text/plain"} {
				_, body := fetch(t, "http://"+d.services.Addresses()[0].At.String()+path, accept)
				if want := c.auth == "" && (path == "/" || path == "/metrics"); tells(body) != want {
					t.Errorf("%s with users %q tells the last value: %t\n%s", path, c.auth, !want, body)
				}
			}
		}
		_, body := fetch(t, "http://"+d.services.Addresses()[0].At.String()+"/?id=5000124", "text/plain")
		if got := strings.Contains(body, "value of the sequence"); got != (c.auth == "") {
			t.Errorf("with users %q the inspector knows a value: %t", c.auth, got)
		}
		conn := dial(t, address)
		if c.login != "" {
			fmt.Fprintf(conn, "set x 0 0 %d\r\n%s\r\n", len(c.login), c.login)
		}
		fmt.Fprint(conn, "stats generators\r\nquit\r\n")
		all, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		stats := string(all)
		if tells(stats) != c.stats || !strings.Contains(stats, "orders:at_hand ") {
			t.Errorf("%q is shown\n%s", c.login, stats)
		}
	}
}
