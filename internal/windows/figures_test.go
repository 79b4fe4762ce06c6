package windows

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden with what is shown now")

// TestFigures compares all that operators see of lanes in every state, of a store and of peers with
// testdata/figures.golden, but the help. -update writes it again; read the diff.
func TestFigures(t *testing.T) {
	var lines []string
	line := func(f figure.Figure) {
		if f.Count {
			f.Metric += " (count)"
		}
		if f.Metric != "" && f.Help == "" {
			t.Errorf("%s has no help", f.Metric)
		}
		lines = append(lines, fmt.Sprintf("%s | %s %s = %v", f.Stat, f.Metric, strings.Join(f.Labels, " "), f.Value))
	}
	bubble(t, func(t *testing.T) {
		f := &fake{}
		c := announcing(new(said), f)
		c.PeerCheck = "warn"
		c.Store.Pool = func() string { return "etcd:/k" }
		h := New(c)
		defer h.Stop(true)
		if err := h.Open(); err != nil {
			t.Fatal(err)
		}
		f.set(errors.New("connection refused"), nil)
		h.Start()
		synctest.Wait()
		lines = append(lines, "# without a store")
		h.Figures(line)
		f.set(nil, nil)
		<-h.Serving()
		f.set(nil, workerid.ErrLost)
		for f.beat() == 0 {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		lines = append(lines, "# an extension")
		h.LeaseFigures(func(f figure.Figure) {
			if strings.HasPrefix(f.Stat, "lease_extensions_") {
				line(f)
			}
		})
		f.set(nil, nil)
		for n := f.beat(); f.beat() == n; {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		h.LeaseFigures(func(f figure.Figure) {
			if strings.HasPrefix(f.Stat+f.Metric, "lease_last_extension") {
				f.Value = "VARIES"
				line(f)
			}
		})
		lines = append(lines, "# lanes")
		h.Issuer.Generator(0).Skip(h.Clock.Now() + 300)
		for _, s := range []workerid.LaneStatus{
			{State: workerid.Serving, Held: true, Worker: 5, For: 1700 * time.Millisecond, Hi: 7, Left: 50 * time.Second},
			{State: workerid.Serving, Held: true, Worker: 5, Hi: workerid.Forever},
			{State: workerid.Draining, Worker: 5, Reason: "the lease is lost", Hi: 7, Left: time.Second},
			{State: workerid.Exhausted, Worker: 5, Hi: 7, Left: -time.Second},
		} {
			h.laneFigure(0, s, h.Clock.Now(), line)
		}
	})
	bubble(t, func(t *testing.T) {
		lines = append(lines, "# worker ids given by hand")
		c := fixed(new(said))
		c.WorkerIDs = []uint64{4, 700}
		begunAfter(t, c, 2*time.Second).LaneFigures(line)
	})
	text := strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", "figures.golden")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != text {
		t.Errorf("%v, figures are not those of %s; -update writes it again:\n%s", err, path, text)
	}
}
