package static_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// TestEphemeral: Stores without a directory, and which processes of a host find that they have the same worker id.
// Times are ms from where the clock began.
func TestEphemeral(t *testing.T) {
	layout := fmt.Sprintf("test-%x", rand.Uint64()) // not one that somebody else on this host uses
	script.Run(t, "testdata/ephemeral.txt", func(t *testing.T, play func(script.Do)) {
		w, stores, held := newWorld(t), map[string]workerid.Backend{}, map[string]workerid.Grant{}
		keep := func(name string, s workerid.Backend, err error) error {
			if err == nil {
				stores[name] = s
				t.Cleanup(func() { s.Close() })
			}
			return err
		}
		// a layout is "mine" or another's, of whom "" claims nothing
		open := func(name string, worker uint64, of string) error {
			c := newWorld(t).config(worker)
			c.Fingerprint, c.Claim = layout+of, of != ""
			s, err := static.Open(c)
			return keep(name, s, err)
		}
		calls := script.Calls{
			"linux": func() {
				if runtime.GOOS != "linux" {
					t.Skip("only Linux has claims")
				}
			},
			"open": open,
			"ephemeral": func(name, of string, workers ...uint64) error {
				s, err := static.NewEphemeral(static.EphemeralConfig{Workers: workers, Fingerprint: layout + of,
					RunAhead: time.Second, Now: func() int64 { return w.id }, Claim: of != ""})
				return keep(name, s, err)
			},
			"close": func(name string) error { return stores[name].Close() },
			"clock": func(ms int64) { w.id += ms },
			"acquire": func(name string, least, most uint64) (string, error) {
				g, err := stores[name].Acquire(ctx, workerid.Request{Owner: "me", Min: least, Max: most})
				if err != nil {
					return "", err
				}
				held[name] = g
				return fmt.Sprintf("%d from %d, for ever: %v", g.Worker, g.Lo-t0, g.Hi == workerid.Forever), nil
			},
			"extend": func(name string) (bool, error) {
				g, err := extendOne(ctx, stores[name], held[name])
				return g == held[name], err
			},
			// release NAME MS: the window's start and so much more is the last
			"release": func(name string, ms int64) error {
				return stores[name].Release(ctx, held[name], held[name].Lo+ms)
			},
		}
		play(func(words []string) string {
			return strings.ReplaceAll(calls.Do(t, words), fmt.Sprint("process ", os.Getpid()), "process PID")
		})
	})
}
