package windows

import (
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/announce"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

// What operators see: in the statistics and on /metrics.

// pool returns the name of the pool, or "".
func (h *Holder) pool() string {
	if h.c.Store.Pool == nil {
		return ""
	}
	return h.c.Store.Pool()
}

// Figures emits what operators see of the clock, the lanes, their windows and the peers.
func (h *Holder) Figures(emit func(figure.Figure)) {
	info := func(metric, help, worry string, labels ...string) {
		emit(figure.Figure{Metric: metric, Value: 1, Help: help, Worry: worry, Labels: labels})
	}
	info("record_info", "What records the windows of the worker ids; always 1.",
		"`record` is `none`: ids repeat if this host's clock goes back before a restart", "record", h.Record())
	info("layout_info", "The layout of the ids; always 1.",
		"daemons of one job differ in `fingerprint`: their ids may be equal",
		"layout", h.c.Layout.Name, "fingerprint", h.c.Layout.Fingerprint())
	emit(figure.Figure{
		Metric: "time_field_left_seconds", Value: float64(h.c.Layout.End()-h.Clock.Now()) / 1000,
		Help:  "Time until the layout's time field is used up.",
		Worry: "less than a year: plan another layout",
	})
	emit(figure.Figure{Stat: "lanes", Metric: "lanes", Value: h.Issuer.Lanes(), Help: "Slots for worker ids."})
	for k := range clock.NumKinds {
		emit(figure.Figure{
			Metric: "clock_adjustments_total", Labels: []string{"kind", k.String()}, Value: h.Clock.Steps(k), Count: true,
			Help:  "Adjustments of the id clock, by kind.",
			Worry: "`forward`, `backward`, `suspend` grow: a person or program sets this clock",
		})
	}
	h.LaneFigures(emit)
	h.LeaseFigures(emit)
}

// ErrorsFor is a count of errors; stat is empty if the statistics have it under another name.
func ErrorsFor(reason, stat string, n uint64) figure.Figure {
	return figure.Figure{
		Stat: stat, Metric: "errors_total", Labels: []string{"reason", reason}, Value: n, Count: true,
		Help: "Requests answered with an error, by reason.",
		Worry: "`clock_behind` grows: this host's clock went back; the log says by how much. `rate_exceeded`: " +
			"clients ask for more ids than its worker ids have; add lanes. `authentication` grows by more than " +
			"ten in five minutes: wrong passwords; the log names the peer that sent most. `lease_expired`, " +
			"`no_worker_id`: see the leases",
	}
}

// RefusalFigures emits how often the lanes had no id.
func (h *Holder) RefusalFigures(emit func(figure.Figure)) {
	for r := range issuer.NumReasons {
		emit(ErrorsFor(r.String(), "refused_"+r.String(), h.Issuer.Refused(r)))
	}
}

// ReadyFigures emits whether ids are issued: not for the reason refusal, or nil.
func ReadyFigures(refusal error, emit func(figure.Figure)) {
	emit(figure.Figure{
		Stat: "ready", Metric: "ready", Value: refusal == nil,
		Help:  "1 while ready: ids are issued, and nothing is wrong with strict order.",
		Worry: "0 for more than a minute: `/readyz` says why; its clients, or those of strict order, get errors",
	})
	if refusal != nil {
		emit(figure.Figure{Stat: "not_ready_reason", Value: refusal.Error()})
	}
}

// LaneFigures emits the figures of each lane.
func (h *Holder) LaneFigures(emit func(figure.Figure)) {
	now := h.Clock.Now()
	for lane, s := range h.Lanes() {
		h.laneFigure(lane, s, now, emit)
	}
}

// laneFigure emits those of a lane at now, Unix ms.
func (h *Holder) laneFigure(lane int, s workerid.LaneStatus, now int64, emit func(figure.Figure)) {
	number, worker := strconv.Itoa(lane), ""
	prefix := "lane_" + number + "_"
	if HasWorker(s) {
		worker = strconv.FormatUint(s.Worker, 10)
		emit(figure.Figure{Stat: prefix + "worker_id", Value: s.Worker})
	}
	labels := []string{"lane", number, "worker_id", worker}
	emit(figure.Figure{Stat: prefix + "state", Value: s.State.String()})
	emit(figure.Figure{
		Metric: "lane_state", Value: 1, Labels: append(labels, "state", s.State.String(), "pool", h.pool()),
		Help: "The state of a lane's lease, and the pool that has its worker id; always 1.",
		Worry: "not `serving` or `degraded` for five minutes: no worker id is available, or its window has ended. " +
			"Two daemons of one job and `pool`, or without a pool, with one `worker_id`: they issue equal ids",
	})
	emit(figure.Figure{Stat: prefix + "state_seconds", Value: int64(s.For.Seconds())})
	if s.Reason != "" {
		emit(figure.Figure{Stat: prefix + "reason", Value: s.Reason})
	}
	if !HasWorker(s) {
		return
	}
	if g := h.Issuer.Generator(lane); g != nil {
		emit(figure.Figure{
			Stat: prefix + "run_ahead_ms", Metric: "run_ahead_seconds", Labels: labels,
			Value: time.Duration(g.Position()-now) * time.Millisecond,
			Help:  "How far the last id lies ahead of the clock; negative while idle.",
			Worry: "dashboard only: near `-max-run-ahead`: clients ask for more ids than the worker id has; when " +
				"they are used up, `katsubushi_errors_total` grows",
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

// LeaseFigures emits what is known of the calls to the store, their outcomes, the store itself and the peers.
func (h *Holder) LeaseFigures(emit func(figure.Figure)) {
	c := h.Counts()
	for o := range workerid.NumOutcomes {
		if o != workerid.Lost {
			emit(figure.Figure{
				Stat: "lease_acquisitions_" + o.String(), Metric: "lease_acquisitions_total",
				Labels: []string{"outcome", o.String()}, Value: c.Acquisitions[o], Count: true,
				Help: "Attempts to get a worker id, by outcome.",
				Worry: "`none_free` grows for longer than a lease: the pool has too few worker ids for this " +
					"fleet. `failed`: the store does not answer, or refuses",
			})
		}
	}
	for o := range workerid.NumOutcomes {
		if o != workerid.NoneFree && o != workerid.NoneYet {
			emit(figure.Figure{
				Stat: "lease_extensions_" + o.String(), Metric: "lease_extensions_total",
				Labels: []string{"outcome", o.String()}, Value: c.Extensions[o], Count: true,
				Help: "Extensions of the lanes' windows, by outcome.",
				Worry: "`lost` grows: the store lost data, or an operator used `lease release` or deleted keys or a state file. " +
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
			Worry: "`timestamp()` of it minus it is over 20, or a third of your lease: no window is extended. It appears " +
				"after the first extension",
		})
	}
	emit(figure.Figure{Stat: "lease_calls", Value: c.Calls})
	emit(figure.Figure{Stat: "lease_calls_ms", Value: c.Took})
	emit(figure.Figure{
		Metric: "lease_call_duration_seconds", Value: figure.Sum{N: c.Calls, Took: c.Took},
		Help: "Duration of calls to the state file or store that records the windows.",
		Worry: "the rate of `_sum` divided by that of `_count` is over 0.2: the store (or the disk) is slow; at 1 " +
			"s a call counts as unanswered",
	})
	h.StoreFigures(emit)
	h.peerFigures(emit)
}

// StoreFigures emits what is known of the store, and returns what the status page says of it.
func (h *Holder) StoreFigures(emit func(figure.Figure)) workerid.Condition {
	return h.theStore().Figures(emit)
}

// peerFigures emits what is known of the peers.
func (h *Holder) peerFigures(emit func(figure.Figure)) {
	if a := h.peers.announcer; a != nil {
		written, failed := a.Counts()
		emit(figure.Figure{
			Stat: "announcements", Metric: "announcements_total", Value: written, Count: true,
			Help: "Announcements of this daemon that the store accepted.",
		})
		emit(figure.Figure{
			Stat: "announcement_errors", Metric: "announcement_errors_total", Value: failed, Count: true,
			Help:  "Announcements that the store did not accept.",
			Worry: "grows: clients that find daemons in the store may not find this one",
		})
	}
	if h.peers.checker == nil {
		return
	}
	f := h.peers.checker.Figures()
	gauge := func(name string, v int, help, worry string) {
		emit(figure.Figure{Stat: name, Metric: name, Value: v, Help: help, Worry: worry})
	}
	gauge("peers", f.Peers, "Other daemons that are announced.", "")
	gauge("peers_unreadable", f.Unreadable, "Announcements that cannot be read.",
		"more than 0 for five minutes: another version, or another program, writes there")
	gauge("peers_asked", f.Asked, "Peers that the last check asked.", "")
	gauge("peers_answered", f.Answered, "Peers that answered the last check.",
		"fewer than it asked, for ten minutes: this daemon cannot reach the others")
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
