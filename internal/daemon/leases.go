package daemon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// What operators see of the lanes and their leases: on /readyz, in the statistics and on /metrics.

var errStopping = errors.New("shutting down")

// ready returns nil if ids are issued, or the reason why not.
func (d *Daemon) ready() error {
	if d.stopping.Load() {
		return errStopping
	}
	if err := d.catalog.Ready(); err != nil {
		return err
	}
	if e := d.sequences.election; e != nil {
		return e.ready()
	}
	return nil
}

// readiness returns the text of /readyz: the error that clients get, and below it what each lane is
// waiting for, and what is known of the store.
func (d *Daemon) readiness() error {
	err := d.ready()
	if err == nil || errors.Is(err, errStopping) {
		return err
	}
	var b strings.Builder
	b.WriteString(err.Error())
	for lane, s := range d.theKeeper().Status() {
		b.WriteString("\n" + laneNote(lane, s))
	}
	for _, note := range d.peerNotes() {
		b.WriteString("\n" + note)
	}
	if facts := d.storeFacts(); len(facts) > 0 {
		b.WriteString("\nstore: " + strings.Join(facts, ", "))
	}
	return errors.New(b.String())
}

func laneNote(lane int, s workerid.LaneStatus) string {
	note := fmt.Sprintf("lane %d: %v for %v", lane, s.State, s.For.Round(time.Second))
	if s.Reason != "" {
		note += ": " + s.Reason
	}
	return note
}

// notes returns what operators must know though ids are issued: which lanes do not serve, and what is
// known of the peers.
func (d *Daemon) notes() (list []string) {
	for lane, s := range d.theKeeper().Status() {
		if s.State != workerid.Serving {
			list = append(list, laneNote(lane, s))
		}
	}
	return append(list, d.peerNotes()...)
}

// storeFacts returns what is known of the store, by the names of the statistics.
func (d *Daemon) storeFacts() (lines []string) {
	d.theStore().Figures(func(f figure.Figure) {
		if f.Stat != "" {
			lines = append(lines, fmt.Sprintf("%s %v", strings.TrimPrefix(f.Name(), "lease_"), f.Value))
		}
	})
	return lines
}

// Serving is closed once the ports are open that ids are served on.
func (d *Daemon) Serving() <-chan struct{} { return d.opened }

// Status says in a few words what the daemon does now: which worker ids it serves, or why it does not.
func (d *Daemon) Status() string {
	if err := d.readiness(); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\nstore: ")
		return text
	}
	var workers []string
	for _, s := range d.theKeeper().Status() {
		if hasWorker(s) {
			workers = append(workers, strconv.FormatUint(s.Worker, 10))
		}
	}
	return "serving, worker id " + strings.Join(workers, ", ")
}

// hasWorker reports whether a lane has a worker id: it holds the lease, or the lease is lost but
// the window is not over yet.
func hasWorker(s workerid.LaneStatus) bool { return s.Held || s.State == workerid.Draining }

// laneStats adds the statistics of each lane at now, Unix ms.
func (d *Daemon) laneStats(now int64, add func(name string, value any)) {
	for lane, s := range d.theKeeper().Status() {
		prefix := "lane_" + strconv.Itoa(lane) + "_"
		if hasWorker(s) {
			add(prefix+"worker_id", s.Worker)
		}
		add(prefix+"state", s.State.String())
		add(prefix+"state_seconds", int64(s.For.Seconds()))
		if s.Reason != "" {
			add(prefix+"reason", s.Reason)
		}
		if !hasWorker(s) {
			continue
		}
		if g := d.issuer.Generator(lane); g != nil {
			add(prefix+"run_ahead_ms", g.Position()-now)
		}
		if s.Hi != workerid.Forever {
			add(prefix+"window_left_ms", s.Left.Milliseconds())
		}
	}
}

// leaseFigures emits what is known of the calls to the store, their outcomes, and the store itself.
func (d *Daemon) leaseFigures(emit func(figure.Figure)) {
	add := func(name string, value any) { emit(figure.Figure{Stat: name, Value: value}) }
	l := d.leases()
	for _, c := range l.Acquisitions {
		add("lease_acquisitions_"+c.Label, c.Value)
	}
	for _, c := range l.Extensions {
		add("lease_extensions_"+c.Label, c.Value)
	}
	if l.LastExtension != 0 {
		add("lease_last_extension", int64(l.LastExtension))
	}
	add("lease_calls", l.Calls)
	add("lease_calls_ms", int64(l.CallSeconds*1000))
	d.theStore().Figures(emit)
}

// lanes describes the lanes at now, Unix ms.
func (d *Daemon) lanes(now int64) []metrics.Lane {
	status := d.theKeeper().Status()
	list := make([]metrics.Lane, len(status))
	for lane, s := range status {
		list[lane] = metrics.Lane{
			Worker: s.Worker, HasWorker: hasWorker(s), State: s.State.String(),
			WindowLeft: s.Left.Seconds(), WindowIsOpen: s.Hi == workerid.Forever,
		}
		if g := d.issuer.Generator(lane); g != nil {
			list[lane].RunAhead = float64(g.Position()-now) / 1000
		}
	}
	return list
}

// leases describes the calls to the store of the windows.
func (d *Daemon) leases() metrics.Leases {
	c := d.theKeeper().Counts()
	l := metrics.Leases{Calls: c.Calls, CallSeconds: c.Took.Seconds()}
	if !c.LastExtended.IsZero() {
		l.LastExtension = float64(c.LastExtended.UnixMilli()) / 1000
	}
	for o := range workerid.NumOutcomes {
		if o != workerid.Lost {
			l.Acquisitions = append(l.Acquisitions, metrics.Count{Label: o.String(), Value: c.Acquisitions[o]})
		}
		if o != workerid.NoneFree {
			l.Extensions = append(l.Extensions, metrics.Count{Label: o.String(), Value: c.Extensions[o]})
		}
	}
	return l
}
