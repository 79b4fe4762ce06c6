package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// TestAnAlarmHasItsOwnFigure: of its kind, in the statistics and the metrics.
func TestAnAlarmHasItsOwnFigure(t *testing.T) {
	for kind := range announce.NumKinds {
		d := &Daemon{}
		d.peers.checker = new(announce.Checker)
		alarms := at(reflect.ValueOf(d.peers.checker).Elem(), "alarms")
		alarms.Index(int(kind)).SetString("a text")
		var on []string
		d.peerFigures(func(f figure.Figure) {
			if f.Number() == 1 {
				on = append(on, f.Stat, f.Metric+strings.Join(f.Labels, "="))
			}
		})
		if want := []string{"peers_alarm_" + kind.String(), "peers_alarmkind=" + kind.String()}; !slices.Equal(on, want) {
			t.Errorf("%v: %v", kind, on)
		}
		if got := d.peerNotes(); !slices.Equal(got, []string{"a text"}) {
			t.Errorf("%v: notes %q", kind, got)
		}
	}
	if (&Daemon{}).peerNotes() != nil {
		t.Error("a daemon without peers has notes of them")
	}
	(&Daemon{}).peerFigures(func(f figure.Figure) { t.Errorf("a daemon without peers has %+v", f) })
}

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

// noted is a store with announcements, and a worker id without end.
type noted struct {
	granted
	written chan announcement.Announcement
	others  map[string]string
}

func (n noted) Announce(_ context.Context, _, text string) error {
	a, _ := announcement.Parse(text)
	n.written <- a
	return nil
}
func (n noted) Peers(context.Context) (map[string]string, error) { return n.others, nil }
func (noted) Figures(func(figure.Figure)) (c workerid.Condition) { return c }
func (noted) Close() error                                       { return nil }

// TestWhatIsAnnounced: with the store's answer and the open port a daemon is ready, and when it is told
// to stop it is not.
func TestWhatIsAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, stop := figuresDaemon(t, t.TempDir())
		defer stop()
		d.peers = peers{}
		d.c.Port, d.c.Bind = 0, "192.0.2.7"
		s := noted{granted: granted{d.clock.Now}, written: make(chan announcement.Announcement, 100)}
		old := d.store
		d.store = s
		defer func() { d.store = old }()
		if err := d.joinPeers(); err != nil || d.peers.announcer == nil {
			t.Fatal(err)
		}
		if a := d.announcement(); a.Addr != "" || a.Ready || !a.TLS || a.Version != "3.4.5" ||
			!slices.Equal(a.Workers, []uint64{5, 9}) ||
			a.Fingerprint != d.c.storeSettings().Fingerprint() {
			t.Errorf("before the port is open: %+v", a)
		}
		d.peers.host = "192.0.2.7"
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		d.found([]server.Port{{Listeners: []net.Listener{ln}}})
		if a := d.announcement(); a.Addr != fmt.Sprintf("192.0.2.7:%d", ln.Addr().(*net.TCPAddr).Port) || !a.Ready {
			t.Errorf("with the port open: %+v", a)
		}
		d.stopping.Store(true)
		<-d.leave()
		if a := <-s.written; a.Ready || len(s.written) != 0 {
			t.Errorf("when it left: %+v, and %d more", a, len(s.written))
		}
		d.c.Sock = "/s"
		d.peers.announcer = nil
		if err := d.joinPeers(); err != nil || d.peers.announcer != nil {
			t.Errorf("a unix socket is announced, %v", err)
		}
	})
}

// TestTheAnnouncedAddress is that of -advertise, else -bind, else the one towards the store.
func TestTheAnnouncedAddress(t *testing.T) {
	d := &Daemon{c: Config{Log: slog.New(slog.DiscardHandler)}}
	own := ownAddress()
	if got := addressTowards(t.Context(), []string{"no such host:1", "127.0.0.1:2379"}); got != own {
		t.Errorf("towards this host: %v, and its address is %v", got, own)
	}
	if got := addressTowards(t.Context(), []string{"192.0.2.1:9"}); got != own && !got.IsLoopback() {
		t.Errorf("towards another network: %v", got)
	}
	d.peers.host = "::1"
	if got := d.peers.address(); got != "" {
		t.Errorf("without a port: %q", got)
	}
	d.peers.port.Store(7)
	if got := d.peers.address(); got != "[::1]:7" {
		t.Errorf("of IPv6: %q", got)
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
			old := d.store
			defer func() { d.store = old }()
			d.store = slow{noted{granted: granted{d.clock.Now}}, &order}
			d.peers = peers{host: "h"}
			d.peers.open.Store(true)
			if err := d.joinPeers(); err != nil {
				t.Fatal(err)
			}
			if a := d.announcement(); !a.Ready {
				t.Fatalf("not ready: %+v", a)
			}
			began := time.Now()
			d.stop(func() { order = append(order, "the port closes") }, func() {}, func() error {
				order = append(order, "sealed")
				return nil
			})
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
	noted
	order *[]string
}

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

// TestAWrongClockAcquiresNothing: the check stands before the store, and its words are on /readyz.
func TestAWrongClockAcquiresNothing(t *testing.T) {
	for _, mode := range []string{"", "refuse", "warn", "off"} {
		synctest.Test(t, func(t *testing.T) {
			d, stop := figuresDaemon(t, t.TempDir())
			defer stop()
			d.c.Store.Min, d.c.Store.Max, d.c.Lanes, d.c.PeerCheck = 9, 9, 1, mode
			d.c.Store.URL = "etcd://127.0.0.1:1" // of a kind that announces
			old := d.store
			defer func() { d.store = old }()
			others := map[string]string{} // a single one would refuse nothing
			for _, host := range []string{"x", "y"} {
				a := announcement.Announcement{Addr: host + ":1", Ready: true}
				a.Fingerprint = d.c.storeSettings().Fingerprint()
				others[host] = a.String()
			}
			d.store = noted{granted: granted{d.clock.Now}, others: others}
			d.peers = peers{}
			if err := d.joinPeers(); err != nil {
				t.Fatal(err)
			}
			if d.peers.checker != nil {
				d.peers.checker.Ask = func(context.Context, string, bool) (announce.Reply, error) {
					return announce.Reply{Ahead: time.Hour}, nil
				}
			}
			d.keeper = d.newKeeper()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				d.keeper.Run(ctx)
			}()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			refused, s := mode == "" || mode == "refuse", d.keeper.Status()[0]
			if s.Held == refused || refused != strings.Contains(s.Reason, "clocks: ") {
				t.Errorf("-peer-check %q: %+v", mode, s)
			}
			cancel()
			<-ended
		})
	}
}
