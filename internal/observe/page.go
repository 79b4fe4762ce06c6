package observe

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/clients"
	"github.com/katsubushi/katsubushi/v3/internal/events"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/static"
)

// What the status page shows of the daemon. It reads what the statistics and metrics read, without a
// cost for the event loops.

// Sample returns the counts at this moment.
func (o *Observer) Sample() page.Sample {
	n := o.front.Counts()
	s := page.Sample{
		At:          time.Now(),
		IDs:         o.issued(&n),
		Requests:    o.services.Requests.Requests.Load() + o.services.Called.Requests.Load(),
		Connections: o.front.Connections.Current.Load(),
		Latency:     o.front.Latency(),
		Process:     processNow(),
	}
	for command := protocol.CmdOther; command <= protocol.CmdAuth; command++ {
		s.Requests += n[command]
	}
	for r, t := range map[issuer.Reason]page.Trouble{
		issuer.NoWorkerID: page.NoWorkerID, issuer.LeaseExpired: page.LeaseExpired, issuer.ClockBehind: page.ClockBehind,
		issuer.RateExceeded: page.RateExceeded, issuer.TimeFieldEnd: page.TimeFieldEnd,
	} {
		s.Troubles[t] = o.windows.Issuer.Refused(r)
	}
	leases := o.windows.Counts()
	_, failed := o.loginCounts(&n)
	for t, n := range map[page.Trouble]uint64{
		page.ConnectionsRefused: o.front.Connections.Refused.Load(),
		page.HTTPRefused:        o.services.Requests.ConnectionsRefused.Load(),
		page.MemoryClosed:       o.front.Budget.Closed(),
		page.AcceptErrors:       o.front.Connections.AcceptErrors.Load(),
		page.LogDropped:         o.logDropped(),
		page.NamesRefused:       o.names.Refused(),
		page.LoginErrors:        failed,
		page.StoreFailed: leases.Extensions[workerid.Failed] + leases.Extensions[workerid.Unanswered] +
			leases.Acquisitions[workerid.Failed] + leases.Acquisitions[workerid.Unanswered],
		page.StoreLost:    leases.Extensions[workerid.Lost],
		page.ClockStepped: o.windows.Clock.Stepped(),
	} {
		s.Troubles[t] = n
	}
	if a := o.windows.Announcer(); a != nil {
		_, s.Troubles[page.AnnounceErrors] = a.Counts()
	}
	return s
}

// View returns what the page shows at this moment.
func (o *Observer) View() page.View {
	now := o.windows.Clock.Now()
	v := page.View{
		Now: time.Now(), Started: o.c.Started, Version: o.c.Version, Engine: o.front.Engine(), Loops: o.c.Front.Loops,
		Ports: o.pagePorts(), RunAhead: o.c.Windows.MaxRunAhead,
		Stopping: o.stopping.Load(), Lanes: o.pageLanes(now),
		Sample: o.Sample(), ConnectionsLimit: int64(o.c.Front.MaxConnections),
		Buffers: o.front.Budget.Held(), BuffersLimit: o.front.Budget.Limit(),
		ClockDifference: o.windows.Clock.Difference(), Layout: o.c.Windows.Layout,
	}
	v.Names, v.Lately, v.Others = o.named.read(o, now)
	v.Host, _ = os.Hostname()
	v.Closed = o.front.Addresses() == nil
	v.NotReloaded = o.notReloaded.list(o.front.Unread())
	if why := o.names.Catalog.Unsure(); why != nil {
		v.Unsure = why.Error()
	}
	showUnready(&v, o.Ready(), o.names.Catalog.Ready())
	if o.front.Certified() {
		_, v.Certificate = o.front.TLS.Valid()
	}
	v.Store = o.pageStore(v.Lanes)
	o.showLeaders(&v)
	if a := o.windows.Announcer(); a != nil {
		v.NotAnnounced = a.Refusal()
	}
	if c := o.windows.Checker(); c != nil {
		showPeers(&v, c.Figures(), c.Alarms())
	}
	v.Events = pageEvents(o.c.Events.Last(events.Size), o.c.Front.HasLogins())
	return v
}

// showUnready adds why the daemon is not ready, if err is not nil: only because of strict order if lanes, an error too,
// is nil.
func showUnready(v *page.View, err, lanes error) {
	switch {
	case err == nil, v.Stopping:
	case errors.Is(err, leader.ErrReplaced):
		v.Restart = err.Error()
	case lanes == nil:
		v.NoStrict = err.Error()
	default:
		v.NotReady = err.Error()
	}
}

// together is how far apart events of several lanes are that are shown as one.
const together = 10 * time.Second

// pageEvents returns the last lines of the log as they are shown, the newest first. What happened to many lanes at
// one time is one line: that of 64 lanes would hide all else. With logins the values of sequences are not shown.
func pageEvents(list []events.Event, logins bool) (shown []page.Event) {
	type lines struct {
		about          string // without the lanes
		first          events.Event
		lanes, workers []uint64
	}
	var all []*lines
	for _, e := range list {
		var lane, worker []uint64
		about := fmt.Sprint(e.Level, e.Text)
		for _, a := range e.Attrs {
			switch kind := a.Value.Kind(); {
			case a.Key == "lane" && kind == slog.KindInt64:
				lane = append(lane, uint64(a.Value.Int64()))
			case a.Key == "worker_id" && kind == slog.KindUint64:
				worker = append(worker, a.Value.Uint64())
			default:
				about += fmt.Sprint(" ", a)
			}
		}
		same := func(o *lines) bool {
			return len(lane) > 0 && o.about == about && len(o.workers) > 0 == (len(worker) > 0) &&
				o.first.At.Sub(e.At) < together
		}
		at := slices.IndexFunc(all, same)
		if at < 0 {
			if len(all) == page.MaxEvents {
				break
			}
			all, at = append(all, &lines{about: about, first: e}), len(all)
		}
		all[at].lanes, all[at].workers = append(all[at].lanes, lane...), append(all[at].workers, worker...)
	}
	for _, o := range all {
		for i, a := range o.first.Attrs {
			if of := map[string][]uint64{"lane": o.lanes, "worker_id": o.workers}[a.Key]; len(of) > 1 {
				o.first.Attrs = slices.Clone(o.first.Attrs)
				o.first.Attrs[i] = slog.String(a.Key, page.Ranges(of))
			}
		}
		shown = append(shown, pageEvent(o.first, logins))
	}
	return shown
}

// notReloaded is what the last reload could not read, and why. Any goroutine may use it.
type notReloaded struct {
	mu  sync.Mutex
	why map[string]error
}

// note takes the result of a reload; nil = it is in force.
func (n *notReloaded) note(what string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.why == nil {
		n.why = map[string]error{}
	}
	n.why[what] = err
}

// list returns a line for each thing whose old content is in force. The users, which are read again without a reload,
// are unread.
func (n *notReloaded) list(unread error) (lines []string) {
	n.mu.Lock()
	why := maps.Clone(n.why)
	n.mu.Unlock()
	if why == nil {
		why = map[string]error{}
	}
	why["users"] = unread
	for _, what := range slices.Sorted(maps.Keys(why)) {
		if err := why[what]; err != nil {
			lines = append(lines, what+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	return lines
}

// pageEvent returns a line of the log as it is shown: without users and the addresses of clients, and with logins
// without the values of sequences, and how many there are.
func pageEvent(e events.Event, logins bool) page.Event {
	var text strings.Builder
	text.WriteString(e.Text)
	secret := logins && slices.ContainsFunc(e.Attrs, func(a slog.Attr) bool { return a.Key == "sequence" })
	for _, a := range e.Attrs {
		if a.Key != "user" && a.Key != "peer" && !(secret && a.Value.Kind() == slog.KindUint64) {
			fmt.Fprintf(&text, " %s=%v", a.Key, a.Value)
		}
	}
	return page.Event{At: e.At, Level: e.Level.String(), Text: text.String()}
}

// pagePorts returns where the daemon listens now.
func (o *Observer) pagePorts() (list []page.Port) {
	for _, a := range o.front.Addresses() {
		list = append(list, page.Port{Name: a.Title, Address: a.At.String()})
	}
	if list == nil {
		list = []page.Port{{Name: "memcached", Address: "opens once ids can be issued"}}
	}
	for _, a := range o.services.Addresses() {
		list = append(list, page.Port{Name: a.Title, Address: a.At.String()})
	}
	return list
}

// clients returns the largest clients of all TCP ports, or nil where users log in: the page has no login, so it cannot
// tell who may know their addresses.
func (o *Observer) clients() *clients.Top {
	if o.c.Front.HasLogins() {
		return nil
	}
	var at []netip.AddrPort
	for _, a := range slices.Concat(o.front.Addresses(), o.services.Addresses()) {
		if tcp, ok := a.At.(interface{ AddrPort() netip.AddrPort }); ok && a.At.Network() == "tcp" {
			at = append(at, tcp.AddrPort())
		}
	}
	top := o.watched.Look(at)
	return &top
}

func (o *Observer) pageLanes(now int64) (list []page.Lane) {
	for lane, s := range o.windows.Lanes() {
		l := page.Lane{
			Worker: s.Worker, HasWorker: windows.HasWorker(s), State: s.State.String(), Reason: s.Reason,
			For: s.For, Left: s.Left, Open: s.Hi == workerid.Forever,
		}
		if g := o.windows.Issuer.Generator(lane); g != nil {
			l.RunAhead = time.Duration(g.Position()-now) * time.Millisecond
		}
		list = append(list, l)
	}
	return list
}

// recordedAhead is about how far ahead of the clock the windows in state files reach where a restart
// need not wait for them.
const recordedAhead = 30 * time.Second

// leased reports whether worker ids are leased, not fixed.
func (o *Observer) leased() bool { return o.c.Store.URL != "" }

// pageStore describes what records the windows.
func (o *Observer) pageStore(lanes []page.Lane) page.Store {
	w, store := o.c.Windows, &o.c.Store
	switch {
	case o.leased():
	case w.StateDir == "":
		return page.Store{Kind: "none"}
	default:
		s := page.Store{Kind: "state directory", Where: w.StateDir, Full: w.Reserve(), Short: static.Heartbeat}
		if slices.ContainsFunc(lanes, func(l page.Lane) bool { return !l.Open && l.Left > s.Full }) {
			s.Full = recordedAhead
		}
		if k := o.windows.StoreFigures(func(figure.Figure) {}); k.Unwritten != nil {
			s.Unwritten, s.Left = k.Unwritten.Error(), k.Left
		}
		return s
	}
	s := page.Store{
		Kind: store.Kind(), URL: store.PublicURL(),
		Full: store.Lease, Short: store.Lease / 4, MaxSkew: store.MaxSkew,
	}
	k := o.windows.StoreFigures(func(f figure.Figure) { s.Facts = append(s.Facts, f) })
	s.Server, s.ClockOff, s.Wait, s.Replicas, s.Needed = k.Server, k.ClockAhead, k.FloorWait, k.Replicas, k.Needed
	return s
}

// shownNames is what the page shows of the declared names. More than fewNames are read once a second at most,
// however many look: 10,000 take some 10 ms of a processor, which clients would miss.
type shownNames struct {
	mu     sync.Mutex
	names  []page.Name
	lately time.Duration // see page.View
	others []generator.Layout
	until  time.Time // they count; zero = read them now
}

const fewNames = 100

// read returns the names, for how long they counted lately, and the layouts that they have instead of the daemon's
// own. The caller must not change them.
func (s *shownNames) read(o *Observer, now int64) ([]page.Name, time.Duration, []generator.Layout) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.until) {
		return s.names, s.lately, s.others
	}
	s.names, s.others = o.pageNames(now), o.otherLayouts()
	s.lately = o.counted.Lately(time.Now(), s.names)
	if len(s.names) > fewNames {
		s.until = time.Now().Add(time.Second)
	}
	return s.names, s.lately, s.others
}

// nameCounts appends what each name has counted. Its slowest answer is that since the last call.
func (o *Observer) nameCounts(list []page.NameCounts) []page.NameCounts {
	for _, g := range o.names.Catalog.Names() {
		n := countsOf(g)
		n.Slowest = g.Took.ForgetSlowest()
		list = append(list, n)
	}
	return list
}

func countsOf(g *issuer.Name) page.NameCounts {
	answers, took := g.Took.Total()
	return page.NameCounts{Issued: g.Issued(), Refused: g.Refused(), Answers: answers, Took: took,
		Slowest: g.Took.Slowest()}
}

// pageNames describes the declared names.
func (o *Observer) pageNames(now int64) (list []page.Name) {
	for _, g := range o.names.Catalog.Names() {
		n := page.Name{Name: g.Name, Kind: g.Kind, NameCounts: countsOf(g)}
		if why, forGood := issuer.Refuses(g.From, now); why != nil {
			n.Refusal, n.Over, n.Retired = why.Error(), forGood, issuer.IsRetirement(why)
		}
		if r, ok := g.From.(issuer.Reporter); ok {
			c := r.Figures(func(figure.Figure) {})
			n.Sequence = &page.Sequence{Order: c.Order, Leader: c.Leader, Last: c.Last, Left: c.Left,
				DaysLeft: c.DaysLeft, Hidden: o.c.Front.HasLogins()}
			if g.Timed() {
				n.Sequence.Timed = &page.Timed{Layout: issuer.LayoutOf(g.Definition, o.c.Windows.Layout), Node: g.Time.Node,
					Hi: c.Hi, Distance: c.Distance}
			}
		}
		list = append(list, n)
	}
	return list
}

// otherLayouts returns the layouts that names have instead of the daemon's own, each once.
func (o *Observer) otherLayouts() (list []generator.Layout) {
	for _, g := range o.names.Catalog.Names() {
		if g.Layout == "" {
			continue
		}
		l, err := generator.ParseLayout(g.Layout)
		if err == nil && l != o.c.Windows.Layout && !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}

// showLeaders adds who leads the sequences in strict order.
func (o *Observer) showLeaders(v *page.View) {
	leading, groups := o.names.Leaders()
	v.Leading = leading
	for _, g := range groups {
		v.Groups = append(v.Groups, page.Group(g))
	}
}

// showPeers adds what is known of other daemons.
func showPeers(v *page.View, f announce.Figures, alarms [announce.NumKinds]string) {
	v.Peers, v.PeersAsked, v.Told, v.Unreadable = f.Peers, f.Asked, f.Answered, f.Unreadable
	for k, text := range alarms {
		if text != "" {
			v.Alarms = append(v.Alarms, page.Alarm{Kind: announce.Kind(k).String(), Text: text})
		}
	}
}
