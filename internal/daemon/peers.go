package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// How daemons that lease from ZooKeeper or etcd announce themselves there, and look at each other.

// peers are what a daemon has of that.
type peers struct {
	announcer *announce.Announcer // nil = it does not announce itself
	checker   *announce.Checker   // nil = it does not look at others
	host      string              // of the address that is announced
	port      atomic.Int64        // of the memcached port; 0 = not known yet
	open      atomic.Bool         // the ports are open

	fingerprint string // of the pool; it is announced
}

// validatePeers checks the settings about announcements.
func (c *Config) validatePeers(wrong func(field, format string, args ...any)) {
	const only = "only ZooKeeper and etcd have a place for announcements: -store zookeeper://... or etcd://..."
	able := c.Store.Announces()
	switch c.Announce {
	case "", "off":
	case "on":
		if !able {
			wrong("Announce", only)
		} else if c.unreachable() {
			wrong("Announce", "a unix socket has no address for others: -advertise says where clients reach it, or leave "+
				"-sock out")
		}
	default:
		wrong("Announce", "%q: on or off allowed", c.Announce)
	}
	switch c.PeerCheck {
	case "", "off":
	case "refuse", "warn":
		if !able {
			wrong("PeerCheck", only)
		}
	default:
		wrong("PeerCheck", "%q: refuse, warn or off allowed", c.PeerCheck)
	}
}

// unreachable reports whether there is no address to announce.
func (c *Config) unreachable() bool { return c.Sock != "" && c.Advertise == "" }

// checksPeers reports whether peers are asked for their clocks.
func (c *Config) checksPeers() bool { return c.Store.Announces() && c.PeerCheck != "off" }

// findAddress finds the host to announce, if no address is given: the only one that the daemon listens
// on, or the one from which it reaches the store. That must not be a loopback address, because what
// runs beside the daemon there may be a proxy.
func (d *Daemon) findAddress() error {
	c := &d.c
	d.peers.port.Store(int64(c.Port))
	switch {
	case !c.Store.Announces() || c.unreachable():
	case c.Advertise != "": // Validate has checked it
		host, port, _ := net.SplitHostPort(c.Advertise)
		n, _ := strconv.Atoi(port)
		d.peers.host = host
		d.peers.port.Store(int64(n))
	case !c.onAllAddresses():
		d.peers.host = c.Bind
	default:
		ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
		defer cancel()
		d.peers.host = addressTowards(ctx, c.Store.Hosts()).String()
	}
	return nil
}

// addressTowards returns the address from which this host reaches one of several host:port.
func addressTowards(ctx context.Context, hosts []string) netip.Addr {
	for _, host := range hosts {
		c, err := new(net.Dialer).DialContext(ctx, "udp", host) // sends nothing
		if err != nil {
			continue
		}
		defer c.Close()
		if ip := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(); !ip.IsLoopback() {
			return ip
		}
	}
	return ownAddress()
}

// address returns the host:port to announce, or "" as long as it is not known.
func (p *peers) address() string {
	port := p.port.Load()
	if p.host == "" || port == 0 {
		return ""
	}
	return net.JoinHostPort(p.host, strconv.FormatInt(port, 10))
}

// joinPeers makes what the daemon needs to announce itself, and to look at others.
func (d *Daemon) joinPeers() error {
	dir, ok := d.theStore().(workerid.Directory)
	if !ok {
		return nil
	}
	d.peers.fingerprint = d.c.storeSettings().Fingerprint()
	name := announce.NewName()
	if d.c.Announce != "off" && !d.c.unreachable() {
		d.peers.announcer = announce.NewAnnouncer(announce.AnnouncerConfig{
			Directory: dir, Name: name, State: d.announcement, Now: d.clock.Now, Log: d.c.Log,
		})
	}
	if d.c.checksPeers() {
		asker := announce.Asker{Now: d.clock.Now, Secret: d.tls != nil, TLS: d.peerTLS}
		if d.c.ForwardUser != "" {
			asker.Login = func() (string, string, error) {
				password, err := secretfile.Password(d.c.ForwardPasswordFile)
				return d.c.ForwardUser, password, err
			}
		}
		d.peers.checker = &announce.Checker{
			Directory: dir, Name: name, Self: d.announcement, Ask: asker.Ask, Confirm: 2*d.c.Store.Interval() + time.Second,
			Refuse: d.c.PeerCheck != "warn", Log: d.c.Log,
		}
	}
	return nil
}

// peerTLS returns the settings of connections to other daemons.
func (d *Daemon) peerTLS() (*tls.Config, error) {
	roots, err := endpoint.Roots(d.c.ForwardCA)
	if err != nil {
		return nil, err
	}
	if d.tls == nil {
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
	}
	return d.tls.Client(roots), nil
}

// announcement returns what is true of this daemon now, without the time.
func (d *Daemon) announcement() announcement.Announcement {
	a := announcement.Announcement{
		Addr: d.peers.address(), TLS: d.tls != nil && d.c.Sock == "",
		Version: d.c.Version, Fingerprint: d.peers.fingerprint,
		Ready: d.peers.open.Load() && d.ready() == nil,
	}
	for _, s := range d.theKeeper().Status() {
		if s.Held && s.State != workerid.Draining {
			a.Workers = append(a.Workers, s.Worker)
		}
	}
	slices.Sort(a.Workers)
	return a
}

// run announces the daemon and looks at its peers until ctx ends.
func (p *peers) run(ctx context.Context, background *sync.WaitGroup) {
	if p.announcer != nil {
		background.Go(func() { p.announcer.Run(ctx) })
	}
	if p.checker != nil {
		background.Go(func() { p.checker.Run(ctx) })
	}
}

// found notes that the ports are open, and where.
func (d *Daemon) found(ports []server.Port) {
	if tcp, ok := ports[0].Listeners[0].Addr().(*net.TCPAddr); ok && d.c.Advertise == "" {
		d.peers.port.Store(int64(tcp.Port))
	}
	d.peers.open.Store(true)
}

// leave announces that the daemon is about to stop. It closes the channel when the store has that, or
// does not answer.
func (d *Daemon) leave() <-chan struct{} {
	left := make(chan struct{})
	go func() {
		defer close(left)
		if a := d.peers.announcer; a != nil {
			if err := a.Leave(context.Background()); err != nil {
				d.c.Log.Warn("clients that watch the store do not know that this daemon stops", "error", err)
			}
		}
	}()
	return left
}

// vanish deletes the announcement. If that fails, the end of the session does it.
func (d *Daemon) vanish() {
	if d.peers.announcer != nil {
		d.peers.announcer.End(context.Background())
	}
}

// peerNotes returns what operators must know of the peers though ids are issued.
func (d *Daemon) peerNotes() []string {
	if d.peers.checker == nil {
		return nil
	}
	return d.peers.checker.Notes()
}

// peerFigures emits what is known of the peers.
func (d *Daemon) peerFigures(emit func(figure.Figure)) {
	if a := d.peers.announcer; a != nil {
		written, failed := a.Counts()
		emit(figure.Figure{
			Stat: "announcements", Metric: "announcements_total", Value: written, Count: true,
			Help: "Announcements of this daemon that the store took.",
		})
		emit(figure.Figure{
			Stat: "announcement_errors", Metric: "announcement_errors_total", Value: failed, Count: true,
			Help:  "Announcements that the store did not take.",
			Worry: "grows: clients that find daemons in the store may not find this one",
		})
	}
	if d.peers.checker == nil {
		return
	}
	f := d.peers.checker.Figures()
	gauge := func(name string, v int, help, worry string) {
		emit(figure.Figure{Stat: name, Metric: name, Value: v, Help: help, Worry: worry})
	}
	gauge("peers", f.Peers, "Other daemons that are announced.", "")
	gauge("peers_unreadable", f.Unreadable, "Announcements that cannot be read.",
		"more than 0 for five minutes: another version, or another program, writes there")
	gauge("peers_asked", f.Asked, "Peers that the last check asked.", "")
	gauge("peers_answered", f.Answered, "Peers that answered the last check.",
		"less than were asked for ten minutes: this daemon cannot reach the others")
	emit(figure.Figure{
		Stat: "peers_clock_difference_ms", Metric: "peers_clock_difference_seconds", Value: f.Difference,
		Help:  "Median of these peers' clocks, minus this daemon's.",
		Worry: "more than half a second either way for two minutes",
	})
	for k, alarm := range f.Alarms {
		kind := announce.Kind(k).String()
		emit(figure.Figure{
			Stat: "peers_alarm_" + kind, Metric: "peers_alarm", Labels: []string{"kind", kind}, Value: alarm,
			Help: "1 while the check of the peers has an alarm of this kind.",
			Worry: "1 for more than a minute: another daemon's clock, worker id, settings or address do not fit " +
				"this one's; [DISCOVERY.md](DISCOVERY.md#the-check-of-the-peers) says what to do for each kind",
		})
	}
}
