package daemon

import (
	"path/filepath"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// TestFailedStartLeavesNothing: whichever step of New fails, another daemon can have the ports, the state directory and
// the store of sequences at once.
func TestFailedStartLeavesNothing(t *testing.T) {
	port := redistest.FreePort(t)
	for _, test := range []struct {
		name string
		fail func(t *testing.T, c *Config)
	}{
		{"the certificate is not there", func(t *testing.T, c *Config) {
			c.TLSCert, c.TLSKey = filepath.Join(t.TempDir(), "c"), filepath.Join(t.TempDir(), "k")
		}},
		{"an address is in use", func(t *testing.T, c *Config) {
			c.Sock, c.SockMode = filepath.Join(t.TempDir(), "none", "s"), 0o700
		}},
		{"the state file cannot be used", func(t *testing.T, c *Config) {
			c.StateDir = t.TempDir()
			tempfile.Write(t, filepath.Join(c.StateDir, "worker-1.state"), "nonsense")
		}},
		{"a sequence is defined otherwise", func(t *testing.T, c *Config) {
			c.Definitions = "orders sequence start=7"
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := testConfig()
			c.StateDir, c.Port, c.HTTPPort = t.TempDir(), port, redistest.FreePort(t)
			c.Definitions, c.Counters.Dir = "orders sequence", t.TempDir()
			start := func(c Config) error {
				d, err := New(t.Context(), c)
				if err == nil {
					d.end(false)
				}
				return err
			}
			if err := start(c); err != nil {
				t.Fatal(err)
			}
			faulty := c
			test.fail(t, &faulty)
			if err := start(faulty); err == nil {
				t.Fatal("it starts")
			}
			if err := start(c); err != nil {
				t.Error("after a failed start:", err)
			}
		})
	}
}
