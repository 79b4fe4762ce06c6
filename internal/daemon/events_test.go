package daemon

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// losing is a store that loses the first lease, at its first extension.
type losing struct {
	granted
	lost *atomic.Bool
}

func (s losing) Extend(_ context.Context, held []workerid.Grant) ([]workerid.Result, error) {
	list := make([]workerid.Result, len(held))
	for i, g := range held {
		list[i].Grant = g
		if !s.lost.Swap(true) {
			list[i].Err = workerid.ErrLost
		}
	}
	return list, nil
}

// TestEventsSurviveBadClients: a lost lease stays among the events, whatever clients do; what they cause is
// in the log, and no event.
func TestEventsSurviveBadClients(t *testing.T) {
	auth := tempfile.Write(t, "auth", "katsu:bushi\n")
	var log childprocess.Log
	d, at := run(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.AuthFile, c.MaxConnections = auth, 2
	}, func(d *Daemon) {
		d.held("keeper").Set(reflect.ValueOf(workerid.NewKeeper(workerid.Config{
			Store: losing{granted{d.windows.Clock.Now}, new(atomic.Bool)}, Lanes: d.windows.Issuer,
			Requests: []workerid.Request{{Min: 5, Max: 5}},
			Now:      d.windows.Clock.Now, RunAhead: d.c.MaxRunAhead, Heartbeat: 10 * time.Millisecond, Log: d.c.Log,
		})))
	})
	kept := func(text string) bool {
		for _, e := range d.events.Last(events.Size) {
			if strings.Contains(fmt.Sprint(e.Text, e.Attrs), text) {
				return true
			}
		}
		return false
	}
	await(t, "the lost lease is an event", func() bool { return kept("the lease is lost") })
	await(t, "lines about clients are in the log", func() bool {
		for range 3 { // one too many
			conn := dial(t, at)
			defer conn.Close()
			io.WriteString(conn, "set x 0 0 9\r\nkatsu bad\r\n") // a wrong password
			bufio.NewReader(conn).ReadString('\n')
		}
		d.overHTTP().Log.Print("a complaint of net/http")
		all := log.String()
		return strings.Contains(all, "too many connections") && strings.Contains(all, "logins failed") &&
			strings.Contains(all, "a complaint of net/http")
	})
	for _, text := range []string{"too many connections", "logins failed", "a complaint"} {
		if kept(text) {
			t.Errorf("%q is an event", text)
		}
	}
	if !kept("the lease is lost") || !kept("listening") {
		t.Errorf("what was kept: %v", d.events.Last(events.Size))
	}
}
