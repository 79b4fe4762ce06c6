package windows

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/fleet"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// How programs that lease from ZooKeeper or etcd announce themselves there, and look at each other.

// peers are what a Holder has of that.
type peers struct {
	announcer *announce.Announcer // nil = it does not announce itself
	checker   *announce.Checker   // nil = it does not look at others
	fleet     *fleet.Fleet        // what is known of the others; nil = they are not announced
	host      string              // of the address that is announced
	port      atomic.Int64        // 0 = not known yet
	open      atomic.Bool         // clients can come
}

// findAddress finds what to announce.
func (h *Holder) findAddress() {
	if h.c.Peers.Address != nil && h.c.Store.Announces {
		host, port := h.c.Peers.Address()
		h.peers.host = host
		h.peers.port.Store(int64(port))
	}
}

// address returns the host:port to announce, or "" as long as it is not known.
func (p *peers) address() string {
	port := p.port.Load()
	if p.host == "" || port == 0 {
		return ""
	}
	return net.JoinHostPort(p.host, strconv.FormatInt(port, 10))
}

// joinPeers makes what is needed to announce this program, and to look at others.
func (h *Holder) joinPeers() {
	dir, ok := h.theStore().(workerid.Directory)
	if !ok {
		return
	}
	name, again := announce.NewName(), time.Duration(0)
	if forgets, ok := dir.(interface{ AnnounceAgain() time.Duration }); ok {
		again = forgets.AnnounceAgain()
	}
	if h.c.Announce != off && h.c.Peers.Address != nil {
		h.peers.announcer = announce.NewAnnouncer(announce.AnnouncerConfig{
			Directory: dir, Name: name, State: h.announcement, Now: h.Clock.Now, Again: again, Log: h.c.Log,
		})
	}
	asker := h.c.Peers.Ask
	asker.Now = h.Clock.Now
	looks := asker
	looks.Near = true // any reader of the page may look, and so make it log in
	h.peers.fleet = fleet.New(fleet.Config{
		Directory: dir, Name: name, Self: h.announcement, Ask: looks.Ask, Log: h.c.Log,
	})
	if h.c.ChecksPeers() {
		h.peers.checker = &announce.Checker{
			Directory: dir, Name: name, Self: h.announcement, Ask: asker.Ask, Confirm: 2*h.c.Store.Heartbeat + time.Second,
			Refuse: h.c.PeerCheck != warn, Log: h.c.Log,
		}
	}
}

// announcement returns what is true of this program now, without the time.
func (h *Holder) announcement() announcement.Announcement {
	a := announcement.Announcement{
		Addr: h.peers.address(), TLS: h.c.Peers.TLS, Version: h.c.Peers.Version, Fingerprint: h.c.Store.Fingerprint,
		Ready: h.peers.open.Load() && h.c.Ready() == nil,
	}
	for _, s := range h.Lanes() {
		if s.Held && s.State != workerid.Draining {
			a.Workers = append(a.Workers, s.Worker)
		}
	}
	slices.Sort(a.Workers)
	return a
}

// runPeers announces the program and looks at its peers until Stop.
func (h *Holder) runPeers() {
	if f := h.peers.fleet; f != nil {
		f.Start()
	}
	if a := h.peers.announcer; a != nil {
		h.background.Go(func() { a.Run(h.keeping) })
	}
	if c := h.peers.checker; c != nil {
		h.background.Go(func() { c.Run(h.keeping) })
	}
}

// Opened tells that clients can come. port is where, if Peers.Address did not know; 0 = it did.
func (h *Holder) Opened(port int) {
	if port != 0 {
		h.peers.port.Store(int64(port))
	}
	h.peers.open.Store(true)
}

// Leave announces that the program is about to stop. It closes the channel when the store has that, or
// does not answer.
func (h *Holder) Leave() <-chan struct{} {
	h.Quiet(true)
	left := make(chan struct{})
	go func() {
		defer close(left)
		if a := h.peers.announcer; a != nil {
			if err := a.Leave(context.Background()); err != nil {
				h.c.Log.Warn("clients that watch the store do not know that this daemon stops", "error", err)
			}
		}
	}()
	return left
}

// withdraw deletes the announcement. If that fails, the end of the session does it.
func (h *Holder) withdraw() {
	if h.peers.announcer != nil && h.started {
		h.peers.announcer.End(context.Background())
	}
}

// Fleet returns what is known of the other daemons, or false where they are not announced. It waits for their answers,
// but not for longer than patience.
func (h *Holder) Fleet(patience time.Duration) (fleet.Roster, bool) {
	if h.peers.fleet == nil {
		return fleet.Roster{}, false
	}
	return h.peers.fleet.Look(patience), true
}

// Itself is this daemon as the others see it, without what the Holder does not know.
func (h *Holder) Itself() fleet.Member {
	a := h.announcement()
	m := fleet.Member{Addr: a.Addr, Self: true, State: fleet.NotReady, Workers: a.Workers, Version: a.Version}
	if a.Ready {
		m.State = fleet.Ready
	}
	for _, s := range h.Lanes() {
		left := fleet.Milliseconds(s.Left)
		if HasWorker(s) && s.Hi != workerid.Forever && (m.Left == nil || left < *m.Left) {
			m.Left = &left
		}
	}
	return m
}

// Announcer returns what announces this program, or nil.
func (h *Holder) Announcer() *announce.Announcer { return h.peers.announcer }

// Checker returns what looks at other daemons, or nil.
func (h *Holder) Checker() *announce.Checker { return h.peers.checker }
