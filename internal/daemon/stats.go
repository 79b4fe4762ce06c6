package daemon

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/httpapi"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/metrics"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
)

// counts returns the counts of all loops together.
func (d *Daemon) counts() (sum protocol.Counts) {
	for i := range d.commands {
		d.commands[i].AddTo(&sum)
	}
	return sum
}

// stats emits a group of memcached's statistics, and reports whether the group exists.
func (d *Daemon) stats(group []byte, emit func(name, value string)) bool {
	var list []figure.Figure
	shown := func(f figure.Figure) {
		if f.Stat != "" {
			list = append(list, f)
		}
	}
	add := func(name string, value any) { shown(figure.Figure{Stat: name, Value: value}) }
	switch string(group) {
	case "":
		list = slices.DeleteFunc(d.generalStats(), isText)
	case "settings":
		list = d.settingStats()
	case "slabs":
		list = []figure.Figure{{Stat: "active_slabs", Value: 0}, {Stat: "total_malloced", Value: 0}}
	case "lanes":
		d.readyStats(add)
		d.laneStats(d.clock.Now(), add)
	case "leases":
		d.leaseFigures(shown)
		d.peerFigures(shown)
	case "generators":
		d.generatorStats(d.clock.Now(), shown)
		d.sequences.election.figures(shown)
	case "items": // memcached's is empty too when it stores nothing
	default:
		return false
	}
	for _, s := range list {
		value := s.Shown()
		switch v := value.(type) {
		case bool:
			value = count(v)
		case float64:
			value = strconv.FormatFloat(v, 'f', -1, 64) // not 1e+06
		}
		emit(s.Stat, fmt.Sprint(value))
	}
	return true
}

// isText reports whether a statistic must stay out of the general group. Monitors expect only
// numbers there, except for the version, memcached's only text; some show nothing at all if they
// find another text.
func isText(s figure.Figure) bool {
	_, text := s.Value.(string)
	return text && s.Stat != "version"
}

// count returns 1 for true, 0 for false.
func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// seconds formats a duration the way memcached shows CPU time.
func seconds(d time.Duration) json.Number { return json.Number(fmt.Sprintf("%.6f", d.Seconds())) }

// generalStats returns what /stats shows, and `stats` without the texts: kayac's nine names first,
// in its order, then those of memcached's that monitors read, then our own.
func (d *Daemon) generalStats() []figure.Figure {
	var list []figure.Figure
	add := func(name string, value any) { list = append(list, figure.Figure{Stat: name, Value: value}) }
	n, nine := d.counts(), d.nineStats()
	add("pid", nine.Pid)
	add("uptime", nine.Uptime)
	add("time", nine.Time)
	add("version", nine.Version)
	add("curr_connections", nine.CurrConnections)
	add("total_connections", nine.TotalConnections)
	add("cmd_get", nine.CmdGet)
	add("get_hits", nine.GetHits)
	add("get_misses", nine.GetMisses)
	d.memcachedStats(&n, add)
	d.ownStats(&n, func(f figure.Figure) {
		if f.Stat != "" {
			list = append(list, f)
		}
	})
	return list
}

// memcachedStats adds what memcached's statistics have too.
func (d *Daemon) memcachedStats(n *protocol.Counts, add func(name string, value any)) {
	user, system := cpuTime()
	add("pointer_size", strconv.IntSize)
	add("rusage_user", seconds(user))
	add("rusage_system", seconds(system))
	add("max_connections", d.c.MaxConnections)
	add("rejected_connections", d.connections.Refused.Load())
	add("connection_structures", d.connections.Current.Load())
	add("cmd_set", n[protocol.CmdSet])
	add("cmd_flush", n[protocol.CmdFlush])
	add("cmd_touch", n[protocol.CmdTouch]+n[protocol.CmdGat])
	add("cmd_meta", n[protocol.CmdMetaGet]+n[protocol.CmdMeta])
	for _, name := range []string{"get_expired", "get_flushed"} {
		add(name, 0)
	}
	add("delete_misses", n[protocol.CmdDelete])
	add("delete_hits", 0)
	add("incr_misses", n[protocol.CmdIncr]-min(n[protocol.IncrHits], n[protocol.CmdIncr]))
	add("incr_hits", n[protocol.IncrHits])
	for _, name := range []string{"decr_misses", "decr_hits", "cas_misses", "cas_hits", "cas_badval"} {
		add(name, 0)
	}
	add("touch_hits", n[protocol.CmdGat])
	add("touch_misses", n[protocol.CmdTouch])
	add("auth_cmds", n[protocol.CmdAuth]+d.requests.Logins.Load()+d.administered.Logins.Load()+d.called.Logins.Load())
	add("auth_errors",
		n[protocol.AuthErrors]+d.requests.LoginErrors.Load()+d.administered.LoginErrors.Load()+d.called.LoginErrors.Load())
	add("bytes_read", d.connections.BytesRead.Load())
	add("bytes_written", d.connections.BytesWritten.Load())
	for _, name := range []string{"limit_maxbytes", "bytes", "curr_items", "total_items", "evictions", "reclaimed",
		"conn_yields"} {
		add(name, 0) // nothing is stored
	}
	add("idle_kicks", d.connections.IdleClosed.Load())
	add("accepting_conns", count(!d.stopping.Load()))
	add("listen_disabled_num", d.connections.AcceptErrors.Load())
	add("threads", d.c.Loops)
}

// ownStats adds what no memcached has.
func (d *Daemon) ownStats(n *protocol.Counts, emit func(figure.Figure)) {
	add := func(name string, value any) { emit(figure.Figure{Stat: name, Value: value}) }
	now := d.clock.Now()
	add("engine", d.engine.Name())
	d.readyStats(add)
	add("get_requests",
		n[protocol.CmdGet]+n[protocol.CmdGets]+n[protocol.CmdGat]+n[protocol.CmdMetaGet]+n[protocol.CmdIDs]+
			d.requests.Requests.Load()+d.called.Requests.Load())
	for r := range issuer.NumReasons {
		add("refused_"+r.String(), d.issuer.Refused(r))
	}
	d.trafficFigures(emit)
	add("time_field_days_left", (d.c.Layout.End()-now)/(24*time.Hour).Milliseconds())
	if d.certified() {
		_, until := d.tls.Valid()
		add("tls_certificate_days_left", int64(time.Until(until)/(24*time.Hour)))
	}
	add("lanes", d.issuer.Lanes())
	d.laneStats(now, add)
	d.leaseFigures(emit)
	d.peerFigures(emit)
	d.logins.figures(emit)
	add("cmd_ids", n[protocol.CmdIDs])
	// memcached's since 1.6.18; no slab is ever reassigned
	add("slab_reassign_busy_nomem", 0)
	add("slab_reassign_last_busy_status", "none")
	add("ssl_proto_errors", d.connections.HandshakeErrors.Load())
}

// readyStats adds whether ids are issued.
func (d *Daemon) readyStats(add func(name string, value any)) {
	refusal := d.ready()
	add("ready", refusal == nil)
	if refusal != nil {
		add("not_ready_reason", refusal.Error())
	}
}

func (d *Daemon) settingStats() []figure.Figure {
	sock, port := d.c.Sock, d.c.Port
	if sock != "" {
		port = 0
	}
	text := func(s string) string { // memcached's way to show a missing text
		if s == "" {
			return "NULL"
		}
		return s
	}
	yes := func(b bool) string {
		if b {
			return "yes"
		}
		return "no"
	}
	list := []figure.Figure{
		{Stat: "maxbytes", Value: 0},
		{Stat: "maxconns", Value: d.c.MaxConnections},
		{Stat: "tcpport", Value: port},
		{Stat: "udpport", Value: d.c.UDPPort},
		{Stat: "inter", Value: text(d.c.Bind)},
		{Stat: "verbosity", Value: 0},
		{Stat: "oldest", Value: 0},
		{Stat: "evictions", Value: "off"},
		{Stat: "domain_socket", Value: text(sock)},
		{Stat: "umask", Value: strconv.FormatUint(uint64(d.c.SockMode), 8)},
		{Stat: "num_threads", Value: d.c.Loops},
		{Stat: "stat_key_prefix", Value: ":"},
		{Stat: "detail_enabled", Value: "no"},
		{Stat: "cas_enabled", Value: "yes"},
		{Stat: "binding_protocol", Value: "auto-negotiate"},
		{Stat: "auth_enabled_sasl", Value: yes(d.logins != nil)},
		{Stat: "auth_enabled_ascii", Value: yes(d.logins != nil)},
		{Stat: "item_size_max", Value: memcache.MaxBody},
		{Stat: "maxconns_fast", Value: "yes"},
		{Stat: "flush_enabled", Value: "yes"},
		{Stat: "idle_timeout", Value: int64(d.c.IdleTimeout.Seconds())},
		{Stat: "ssl_enabled", Value: yes(d.encrypted())},
		{Stat: "engine", Value: d.engine.Name()},
		{Stat: "lanes", Value: d.c.lanes()},
		{Stat: "layout", Value: d.c.Layout.Name},
		{Stat: "max_run_ahead_ms", Value: d.c.MaxRunAhead.Milliseconds()},
	}
	for _, l := range listeners() {
		if l.on == nil {
			list = append(list, figure.Figure{Stat: strings.ReplaceAll(l.Flag, "-", "_"), Value: *l.Number(&d.c.Ports)})
		}
	}
	list = append(list, figure.Figure{Stat: "advertise", Value: text(d.c.Advertise)})
	if d.c.leased() {
		list = append(list, figure.Figure{Stat: "lease_fingerprint", Value: d.c.storeSettings().Fingerprint()})
	}
	return append(list, figure.Figure{Stat: "client_flags_size", Value: 4})
}

func (d *Daemon) logDropped() uint64 {
	if d.c.LogDropped == nil {
		return 0
	}
	return d.c.LogDropped()
}

// figures emits what /metrics shows besides the snapshot.
func (d *Daemon) figures(emit func(figure.Figure)) {
	d.trafficFigures(emit)
	d.logins.figures(emit)
	d.sequences.election.figures(emit)
	d.peerFigures(emit)
	d.theStore().Figures(emit)
	d.generatorMetrics(d.clock.Now(), emit)
}

// snapshot returns what /metrics shows.
func (d *Daemon) snapshot() metrics.Snapshot {
	n, now := d.counts(), d.clock.Now()
	s := metrics.Snapshot{
		IDs: n[protocol.IDs] + d.requests.IDs.Load() + d.called.IDs.Load(),
		Commands: []metrics.Count{
			{Label: "get", Value: n[protocol.CmdGet]}, {Label: "gets", Value: n[protocol.CmdGets]},
			{Label: "gat", Value: n[protocol.CmdGat]},
			{Label: "mg", Value: n[protocol.CmdMetaGet]}, {Label: "meta", Value: n[protocol.CmdMeta]},
			{Label: "ids", Value: n[protocol.CmdIDs]},
			{Label: "set", Value: n[protocol.CmdSet]},
			{Label: "touch", Value: n[protocol.CmdTouch]}, {Label: "delete", Value: n[protocol.CmdDelete]},
			{Label: "incr", Value: n[protocol.CmdIncr]},
			{Label: "flush", Value: n[protocol.CmdFlush]}, {Label: "stats", Value: n[protocol.CmdStats]},
			{Label: "version", Value: n[protocol.CmdVersion]},
			{Label: "auth",
				Value: n[protocol.CmdAuth] + d.requests.Logins.Load() + d.administered.Logins.Load() + d.called.Logins.Load()},
			{Label: "other", Value: n[protocol.CmdOther]}, {Label: "http", Value: d.requests.Requests.Load()},
			{Label: "grpc", Value: d.called.Requests.Load()},
		},
		Errors: []metrics.Count{
			{Label: "malformed", Value: n[protocol.Malformed]}, {Label: "too_long", Value: n[protocol.TooLong]},
			{Label: "unauthenticated", Value: n[protocol.Unauthenticated]},
			{Label: "authentication",
				Value: n[protocol.AuthErrors] + d.requests.LoginErrors.Load() + d.administered.LoginErrors.Load() +
					d.called.LoginErrors.Load()},
		},
		Ready: d.ready() == nil,
		Lanes: d.lanes(now),
		Pool:  d.c.Store.Pool(),

		TimeFieldSecondsLeft: float64(d.c.Layout.End()-now) / 1000,

		Leases:  d.leases(),
		Figures: d.figures,
	}
	for i := range d.latency {
		s.Latency.Add(&d.latency[i])
	}
	if d.certified() {
		_, until := d.tls.Valid()
		s.Encrypted, s.CertificateSecondsLeft = true, time.Until(until).Seconds()
	}
	for r := range issuer.NumReasons {
		s.Errors = append(s.Errors, metrics.Count{Label: r.String(), Value: d.issuer.Refused(r)})
	}
	for k := range clock.NumKinds {
		s.ClockAdjustments = append(s.ClockAdjustments, metrics.Count{Label: k.String(), Value: d.clock.Steps(k)})
	}
	return s
}

func (d *Daemon) httpConfig() httpapi.Config {
	c := httpapi.Config{
		MaxConnections: HTTPConnections(d.c.MaxConnections), Log: d.complaints(),
		Batch: d.catalog.Batch, Declared: d.catalog.Declares, Stats: d.generalStats, Ready: d.readiness, Notes: d.notes,
		Counters: &d.requests,
		Page:     page.Handler(page.Config{Read: d.view, History: &d.history}),
		Metrics: metrics.Handler(metrics.Build{
			Version: d.c.Version, GoVersion: runtime.Version(), Engine: d.engine.Name(),
			Layout: d.c.Layout.Name, Fingerprint: d.c.Layout.Fingerprint(), Started: d.started,
			Record: d.c.record(),
		}, d.snapshot),
	}
	if d.logins != nil {
		c.Login = d.logins.http
	}
	return c
}
