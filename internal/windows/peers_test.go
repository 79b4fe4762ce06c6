package windows

import (
	"context"
	"errors"
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
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// TestAnAlarmHasItsOwnFigure: of its kind, in the statistics and the metrics.
func TestAnAlarmHasItsOwnFigure(t *testing.T) {
	for kind := range announce.NumKinds {
		h := New(fixed(new(said)))
		h.keeper = h.newKeeper()
		h.peers.checker = new(announce.Checker)
		alarms := reflect.ValueOf(h.peers.checker).Elem().FieldByName("alarms")
		alarms = reflect.NewAt(alarms.Type(), alarms.Addr().UnsafePointer()).Elem()
		alarms.Index(int(kind)).SetString("a text")
		var on []string
		h.peerFigures(func(f figure.Figure) {
			if f.Number() == 1 {
				on = append(on, f.Stat, f.Metric+strings.Join(f.Labels, "="))
			}
		})
		if want := []string{"peers_alarm_" + kind.String(), "peers_alarmkind=" + kind.String()}; !slices.Equal(on, want) {
			t.Errorf("%v: %v", kind, on)
		}
		if got := h.Notes(); !slices.Contains(got, "a text") {
			t.Errorf("%v: notes %q", kind, got)
		}
	}
	New(fixed(new(said))).peerFigures(func(f figure.Figure) { t.Errorf("without peers there is %+v", f) })
}

// TestWhatIsAnnounced: with the store's answer and the open port a program is ready, and when it is told
// to stop it is not.
func TestWhatIsAnnounced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		c, away := announcing(new(said), f), new(atomic.Bool)
		c.Ready = func() error {
			if away.Load() {
				return errors.New("the leader is away")
			}
			return nil
		}
		h := begun(t, c)
		synctest.Wait()
		if a := h.announcement(); a.Addr != "" || a.Ready || !a.TLS || a.Version != "3.4.5" || a.Fingerprint != "f1" ||
			!slices.Equal(a.Workers, []uint64{5}) {
			t.Errorf("before the port is open: %+v", a)
		}
		h.Opened(11212)
		if a := h.announcement(); a.Addr != "192.0.2.7:11212" || !a.Ready {
			t.Errorf("with the port open: %+v", a)
		}
		h.Opened(0)
		if a := h.announcement(); a.Addr != "192.0.2.7:11212" {
			t.Errorf("with a known port: %+v", a)
		}
		away.Store(true)
		if a := h.announcement(); a.Ready {
			t.Errorf("not ready: %+v", a)
		}
		away.Store(false)
		time.Sleep(2 * time.Second) // the clock's second wakes the announcer
		<-h.Leave()
		if last := f.notes[len(f.notes)-1]; last.Ready || !f.notes[len(f.notes)-2].Ready {
			t.Errorf("when it left: %+v", f.notes)
		}
	})
}

// TestWorkerIDsAreAnnouncedInOrder: without those whose lease is lost.
func TestWorkerIDsAreAnnouncedInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fake{}
		c := announcing(new(said), f)
		c.Lanes = 3
		h := begun(t, c)
		synctest.Wait()
		if a := h.announcement(); !slices.Equal(a.Workers, []uint64{5, 6, 7}) {
			t.Errorf("%v", a.Workers)
		}
		f.set(nil, workerid.ErrLost)
		f.mu.Lock()
		f.full = true
		f.mu.Unlock()
		time.Sleep(15 * time.Second)
		if a := h.announcement(); len(a.Workers) != 0 {
			t.Errorf("of lost leases: %v; %s", a.Workers, h.Status())
		}
	})
}

// TestWhoAnnounces: a program that can be reached, if the store has a place for it and the settings want it.
func TestWhoAnnounces(t *testing.T) {
	for _, c := range []struct {
		name             string
		change           func(*Config)
		announces, looks bool
	}{
		{"as it is", func(*Config) {}, true, true},
		{"off", func(c *Config) { c.Announce, c.PeerCheck = "off", "off" }, false, false},
		{"nowhere to be reached", func(c *Config) { c.Peers.Address = nil }, false, true},
	} {
		bubble(t, func(t *testing.T) {
			config := announcing(new(said), &fake{})
			c.change(&config)
			h := begun(t, config)
			if (h.Announcer() != nil) != c.announces || (h.Checker() != nil) != c.looks {
				t.Errorf("%s: %v, %v", c.name, h.Announcer(), h.Checker())
			}
			h.Stop(true)
		})
	}
	bubble(t, func(t *testing.T) {
		c := leasing(new(said), &fake{})
		c.Peers.Address = func() (string, int) { return "192.0.2.7", 7 }
		h := begun(t, c)
		if h.Announcer() != nil || h.Checker() != nil {
			t.Error("peers without a place for them")
		}
	})
}

// TestTheStoreIsToldTheAddress, as far as it is known.
func TestTheStoreIsToldTheAddress(t *testing.T) {
	for _, c := range []struct {
		host string
		port int
		want string
	}{{"::1", 0, ""}, {"::1", 7, "[::1]:7"}, {"ids.example", 11212, "ids.example:11212"}, {"", 7, ""},
		{"no.place", 9, ""}} {
		config, told := announcing(new(said), &fake{}), "none"
		config.Store.Announces = c.port != 9
		open := config.Store.Open
		config.Store.Open = func(now func() int64, address string) (workerid.Backend, error) {
			told = address
			return open(now, address)
		}
		config.Peers.Address = func() (string, int) { return c.host, c.port }
		h := New(config)
		if err := h.Open(); err != nil || told != c.want {
			t.Errorf("%q, want %q, %v", told, c.want, err)
		}
		h.Stop(true)
	}
}

// TestAWrongClockAcquiresNothing: the check stands before the store, and its words are in the status.
func TestAWrongClockAcquiresNothing(t *testing.T) {
	for _, mode := range []string{"", "refuse", "warn", "off"} {
		bubble(t, func(t *testing.T) {
			f := &fake{others: map[string]string{}} // a single one would refuse nothing
			for _, host := range []string{"x", "y"} {
				a := announcement.Announcement{Addr: host + ":1", Ready: true, Fingerprint: "f1"}
				f.others[host] = a.String()
			}
			c := announcing(new(said), f)
			c.PeerCheck = mode
			h := New(c)
			defer h.Stop(true)
			if err := h.Open(); err != nil {
				t.Fatal(err)
			}
			if h.peers.checker != nil {
				h.peers.checker.Ask = func(context.Context, string, bool) (announce.Reply, error) {
					return announce.Reply{Ahead: time.Hour}, nil
				}
			}
			h.Start()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			refused, s := mode == "" || mode == "refuse", h.Lanes()[0]
			if s.Held == refused || refused != strings.Contains(s.Reason, "clocks: ") {
				t.Errorf("-peer-check %q: %+v", mode, s)
			}
			if mode == "warn" && (h.peers.checker.Confirm != 21*time.Second || h.peers.checker.Refuse) {
				t.Errorf("the check: %v, %v", h.peers.checker.Confirm, h.peers.checker.Refuse)
			}
		})
	}
}

// TestAnAskerHasTheIDClock: peers' clocks are compared with it.
func TestAnAskerHasTheIDClock(t *testing.T) {
	c := announcing(new(said), &fake{})
	c.Peers.Ask = announce.Asker{Now: nil, Secret: true}
	h := New(c)
	defer h.Stop(true)
	if err := h.Open(); err != nil {
		t.Fatal(err)
	}
	if h.peers.checker.Ask == nil || h.c.Peers.Ask.Now != nil {
		t.Error("it asks nobody, or the settings have changed")
	}
}
