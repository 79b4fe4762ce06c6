package daemon

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// blames returns the fields that Validate finds fault with, of those about peers.
func blames(c Config) (list []string) {
	for _, p := range problem.Of(c.Validate()) {
		if slices.Contains([]string{"Announce", "PeerCheck", "ForwardUser", "ForwardPasswordFile", "ForwardCA"}, p.Field) {
			list = append(list, p.Field)
		}
	}
	return list
}

// TestAnnouncementsNeedAStoreForThem: what cannot be is an error only if somebody asked for it.
func TestAnnouncementsNeedAStoreForThem(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(*Config) {}, "[]"},
		{func(c *Config) { c.Announce, c.PeerCheck = "off", "off" }, "[]"},
		{func(c *Config) { c.Announce = "on" }, "[Announce]"},
		{func(c *Config) { c.PeerCheck = "warn" }, "[PeerCheck]"},
		{func(c *Config) { c.PeerCheck = "refuse" }, "[PeerCheck]"},
		{func(c *Config) { c.Announce, c.PeerCheck = "yes", "no" }, "[Announce PeerCheck]"},
		{func(c *Config) { c.ForwardUser, c.ForwardPasswordFile = "ann", "/f" }, "[ForwardUser ForwardPasswordFile]"},
	} {
		config := testConfig()
		c.change(&config)
		if got := fmt.Sprint(blames(config)); got != c.want {
			t.Errorf("%+v: %s, want %s", config.Announce+" "+config.PeerCheck, got, c.want)
		}
	}
}

// TestTheAnnouncedAddress is that of -advertise, else -bind, else the one towards the store.
func TestTheAnnouncedAddress(t *testing.T) {
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) { c.Advertise = "ids.example:7" }, "ids.example 7"},
		{func(c *Config) { c.Port = 11212 }, "127.0.0.1 11212"},
		{func(c *Config) { c.Bind, c.Store.URL = "", "etcd://127.0.0.1:2379" }, sockets.OwnAddress().String() + " 0"},
	} {
		config := testConfig()
		c.change(&config)
		host, port := config.ownAddress()
		if got := fmt.Sprint(host, " ", port); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// TestAUnixSocketIsNotAnnounced: nobody elsewhere could reach it.
func TestAUnixSocketIsNotAnnounced(t *testing.T) {
	c := testConfig()
	if w := c.windows(); w.Peers.Address == nil {
		t.Error("a TCP port is not announced")
	}
	c.Sock = "/s"
	if w := c.windows(); w.Peers.Address != nil {
		t.Error("a unix socket is announced")
	}
	c.Advertise = "ids.example:7"
	if w := c.windows(); w.Peers.Address == nil {
		t.Error("what is advertised is not announced")
	}
}

// TestClientsLearnOfAStopBeforeThePortCloses: the store has that the daemon is not ready before the
// port closes, the announcement ends after the last id, and the session after that.
func TestClientsLearnOfAStopBeforeThePortCloses(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d, stop := figuresDaemon(t, t.TempDir())
			defer stop()
			d.c.ShutdownDelay = delay
			var order []string
			store := slow{granted{d.windows.Clock.Now}, &order}
			d.lease(store)
			d.held("started").SetBool(true)
			d.held("peers", "announcer").Set(reflect.ValueOf(announce.NewAnnouncer(announce.AnnouncerConfig{
				Directory: store, State: func() (a announcement.Announcement) { return a }, Now: d.windows.Clock.Now, Log: d.c.Log,
			})))
			began := time.Now()
			d.front.Start(nil)
			closes := context.CancelFunc(func() { order = append(order, "the port closes") })
			at(reflect.ValueOf(d.front).Elem(), "stop").Set(reflect.ValueOf(closes))
			sealed := context.CancelFunc(func() { order = append(order, "sealed") })
			at(reflect.ValueOf(d.observer).Elem(), "endKeeping").Set(reflect.ValueOf(sealed))
			var stopping atomic.Bool
			time.AfterFunc(delay/2, func() { stopping.Store(d.observer.View().Stopping) })
			d.stop(false)
			if delay > 0 && !stopping.Load() {
				t.Error("during the delay load balancers are told that it is ready")
			}
			want := "not ready, the port closes, sealed, deleted, session ends"
			if got := strings.Join(order, ", "); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if took := time.Since(began); took > delay+2*time.Second {
				t.Errorf("stopping took %v", took)
			}
		})
	}
}

// slow is a store whose calls take half a second.
type slow struct {
	granted
	order *[]string
}

func (slow) Peers(context.Context) (map[string]string, error)   { return nil, nil }
func (slow) Figures(func(figure.Figure)) (c workerid.Condition) { return c }

func (s slow) Announce(_ context.Context, _, text string) error {
	time.Sleep(500 * time.Millisecond)
	a, err := announcement.Parse(text)
	switch {
	case text == "":
		*s.order = append(*s.order, "deleted")
	case err == nil && !a.Ready:
		*s.order = append(*s.order, "not ready")
	default:
		*s.order = append(*s.order, text)
	}
	return nil
}

func (s slow) Close() error {
	*s.order = append(*s.order, "session ends")
	return nil
}
