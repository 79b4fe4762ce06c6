package daemon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
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

// laneFigures emits the figures of each lane at now, Unix ms.
func (d *Daemon) laneFigures(now int64, emit func(figure.Figure)) {
	for lane, s := range d.theKeeper().Status() {
		d.laneFigure(lane, s, now, emit)
	}
}

func (d *Daemon) laneFigure(lane int, s workerid.LaneStatus, now int64, emit func(figure.Figure)) {
	number, worker := strconv.Itoa(lane), ""
	prefix := "lane_" + number + "_"
	if hasWorker(s) {
		worker = strconv.FormatUint(s.Worker, 10)
		emit(figure.Figure{Stat: prefix + "worker_id", Value: s.Worker})
	}
	labels := []string{"lane", number, "worker_id", worker}
	emit(figure.Figure{Stat: prefix + "state", Value: s.State.String()})
	emit(figure.Figure{
		Metric: "lane_state", Value: 1, Labels: append(labels, "state", s.State.String(), "pool", d.c.Store.Pool()),
		Help: "The state of a lane's lease, and the pool that has its worker id; always 1.",
		Worry: "not `serving` or `degraded` for five minutes: no worker id is available, or its window is over. " +
			"Two daemons of one job and `pool`, or without a pool, with one `worker_id`: they issue equal ids",
	})
	emit(figure.Figure{Stat: prefix + "state_seconds", Value: int64(s.For.Seconds())})
	if s.Reason != "" {
		emit(figure.Figure{Stat: prefix + "reason", Value: s.Reason})
	}
	if !hasWorker(s) {
		return
	}
	if g := d.issuer.Generator(lane); g != nil {
		emit(figure.Figure{
			Stat: prefix + "run_ahead_ms", Metric: "run_ahead_seconds", Labels: labels,
			Value: time.Duration(g.Position()-now) * time.Millisecond,
			Help:  "How far the last id lies ahead of the clock; negative while idle.",
			Worry: "dashboard only: near `-max-run-ahead`: more ids are asked for than the worker id has; when they " +
				"are used up, `katsubushi_errors_total` grows",
		})
	}
	if s.Hi != workerid.Forever {
		emit(figure.Figure{
			Stat: prefix + "window_left_ms", Metric: "window_left_seconds", Labels: labels, Value: s.Left,
			Help: "Time until the lane's window ends.",
			Worry: "falls towards 0, where the lane stops: the window is not being extended. With a lease of a " +
				"minute, below 15; with a state file, below 0.5",
		})
	}
}

// leaseFigures emits what is known of the calls to the store, their outcomes, and the store itself.
func (d *Daemon) leaseFigures(emit func(figure.Figure)) {
	c := d.theKeeper().Counts()
	for o := range workerid.NumOutcomes {
		if o != workerid.Lost {
			emit(figure.Figure{
				Stat: "lease_acquisitions_" + o.String(), Metric: "lease_acquisitions_total",
				Labels: []string{"outcome", o.String()}, Value: c.Acquisitions[o], Count: true,
				Help: "Attempts to get a worker id, by outcome.",
				Worry: "`none_free` grows for longer than a lease: the pool has too few worker ids for this fleet. " +
					"`failed`: the store is away or refuses",
			})
		}
	}
	for o := range workerid.NumOutcomes {
		if o != workerid.NoneFree {
			emit(figure.Figure{
				Stat: "lease_extensions_" + o.String(), Metric: "lease_extensions_total",
				Labels: []string{"outcome", o.String()}, Value: c.Extensions[o], Count: true,
				Help: "Extensions of windows, each lane's counted, by outcome.",
				Worry: "`lost` grows: the store lost data, `lease release` was used, or somebody deletes keys. " +
					"`failed` (an error) and `unanswered` (none in 1 s) grow by more than five in a quarter of an " +
					"hour: the log and `lane_0_reason` in `stats lanes` say why",
			})
		}
	}
	if at := c.LastExtended; !at.IsZero() {
		emit(figure.Figure{Stat: "lease_last_extension", Value: at.Unix()})
		emit(figure.Figure{
			Metric: "lease_last_extension_timestamp_seconds", Value: float64(at.UnixMilli()) / 1000,
			Help: "When an extension last succeeded, in Unix seconds.",
			Worry: "`time()` minus it over 30, or half of your lease: nothing is extended. It appears after the " +
				"first extension",
		})
	}
	emit(figure.Figure{Stat: "lease_calls", Value: c.Calls})
	emit(figure.Figure{Stat: "lease_calls_ms", Value: c.Took})
	emit(figure.Figure{
		Metric: "lease_call_duration_seconds", Value: figure.Sum{N: c.Calls, Took: c.Took},
		Help: "Duration of the calls of what records the windows.",
		Worry: "the rate of `_sum` by that of `_count` over 0.2: the store (or the disk) is slow; at 1 s it " +
			"counts as unanswered",
	})
	d.theStore().Figures(emit)
}
