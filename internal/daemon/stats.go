package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
	"github.com/katsubushi/katsubushi/v3/proto/katsubushipb"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
)

// nineStats returns the statistics that kayac/go-katsubushi has.
func (d *Daemon) nineStats() *katsubushipb.StatsResponse {
	n := d.front.Counts()
	issued := d.issued(&n)
	refused := n[protocol.Refused] + d.services.Requests.Refused.Load() + d.services.Called.Refused.Load()
	return &katsubushipb.StatsResponse{
		Pid:              int32(os.Getpid()),
		Uptime:           int64(time.Since(d.started).Seconds()),
		Time:             d.clock.Now() / 1000,
		Version:          d.c.Version,
		CurrConnections:  d.front.Connections.Current.Load(),
		TotalConnections: int64(d.front.Connections.Total.Load()),
		CmdGet:           int64(issued + refused), // like memcached: dashboards divide the hits by it
		GetHits:          int64(issued),
		GetMisses:        int64(refused),
	}
}

// collected appends what the statistics show to a list.
func collected(list *[]figure.Figure) func(figure.Figure) {
	return func(f figure.Figure) {
		if f.Stat != "" {
			*list = append(*list, f)
		}
	}
}

// stats emits a group of memcached's statistics, and reports whether the group exists.
func (d *Daemon) stats(group []byte, emit func(name, value string)) bool {
	var list []figure.Figure
	add := collected(&list)
	switch string(group) {
	case "":
		list = slices.DeleteFunc(d.generalStats(), isText)
	case "settings":
		list = d.settingStats()
	case "slabs":
		list = []figure.Figure{{Stat: "active_slabs", Value: 0}, {Stat: "total_malloced", Value: 0}}
	case "lanes":
		windows.ReadyFigures(d.ready(), add)
		d.windows.LaneFigures(add)
	case "leases":
		d.windows.LeaseFigures(add)
	case "generators":
		d.names.Stats(d.clock.Now(), add)
		d.names.LeaderFigures(add)
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
	n, nine := d.front.Counts(), d.nineStats()
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
	d.ownFigures(&n, collected(&list))
	return list
}

// memcachedStats adds what memcached's statistics have too.
func (d *Daemon) memcachedStats(n *protocol.Counts, add func(name string, value any)) {
	user, system := cpuTime()
	add("pointer_size", strconv.IntSize)
	add("rusage_user", seconds(user))
	add("rusage_system", seconds(system))
	add("max_connections", d.c.MaxConnections)
	add("rejected_connections", d.front.Connections.Refused.Load())
	add("connection_structures", d.front.Connections.Current.Load())
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
	logins, failed := d.loginCounts(n)
	add("auth_cmds", logins)
	add("auth_errors", failed)
	add("bytes_read", d.front.Connections.BytesRead.Load())
	add("bytes_written", d.front.Connections.BytesWritten.Load())
	for _, name := range []string{"limit_maxbytes", "bytes", "curr_items", "total_items", "evictions", "reclaimed",
		"conn_yields"} {
		add(name, 0) // nothing is stored
	}
	add("idle_kicks", d.front.Connections.IdleClosed.Load())
	add("accepting_conns", count(!d.stopping.Load()))
	add("listen_disabled_num", d.front.Connections.AcceptErrors.Load())
	add("threads", d.c.Loops)
}

// ownFigures emits what the general group has that no memcached has, and what belongs to that on /metrics.
func (d *Daemon) ownFigures(n *protocol.Counts, emit func(figure.Figure)) {
	now := d.clock.Now()
	emit(figure.Figure{Stat: "engine", Value: d.front.Engine()})
	windows.ReadyFigures(d.ready(), emit)
	emit(figure.Figure{
		Stat: "get_requests",
		Value: n[protocol.CmdGet] + n[protocol.CmdGets] + n[protocol.CmdGat] + n[protocol.CmdMetaGet] +
			n[protocol.CmdIDs] + d.services.Requests.Requests.Load() + d.services.Called.Requests.Load(),
	})
	d.windows.RefusalFigures(emit)
	d.trafficFigures(emit)
	left := d.c.Layout.End() - now
	emit(figure.Figure{Stat: "time_field_days_left", Value: left / (24 * time.Hour).Milliseconds()})
	d.front.CertificateFigures(emit)
	d.windows.Figures(emit)
	d.front.LoginFigures(emit)
	for _, f := range []figure.Figure{
		{Stat: "cmd_ids", Value: n[protocol.CmdIDs]},
		// memcached's since 1.6.18; no slab is ever reassigned
		{Stat: "slab_reassign_busy_nomem", Value: 0},
		{Stat: "slab_reassign_last_busy_status", Value: "none"},
		{Stat: "ssl_proto_errors", Value: d.front.Connections.HandshakeErrors.Load()},
	} {
		emit(f)
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
		{Stat: "auth_enabled_sasl", Value: yes(d.c.HasLogins())},
		{Stat: "auth_enabled_ascii", Value: yes(d.c.HasLogins())},
		{Stat: "item_size_max", Value: memcache.MaxBody},
		{Stat: "maxconns_fast", Value: "yes"},
		{Stat: "flush_enabled", Value: "yes"},
		{Stat: "idle_timeout", Value: int64(d.c.IdleTimeout.Seconds())},
		{Stat: "ssl_enabled", Value: yes(d.front.Encrypted())},
		{Stat: "engine", Value: d.front.Engine()},
		{Stat: "lanes", Value: d.issuer.Lanes()},
		{Stat: "layout", Value: d.c.Layout.Name},
		{Stat: "max_run_ahead_ms", Value: d.c.MaxRunAhead.Milliseconds()},
	}
	httpPort := d.c.HTTPPort
	if d.c.HTTPByDefault && !d.services.Serves("http-port") { // it was taken
		httpPort = 0
	}
	list = append(list,
		figure.Figure{Stat: "redis_port", Value: d.c.RedisPort},
		figure.Figure{Stat: "http_port", Value: httpPort},
		figure.Figure{Stat: "grpc_port", Value: d.c.GRPCPort},
		figure.Figure{Stat: "admin_port", Value: d.c.AdminPort},
		figure.Figure{Stat: "advertise", Value: text(d.c.Advertise)})
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

// issued returns how many ids clients got, on all ports.
func (d *Daemon) issued(n *protocol.Counts) uint64 {
	return n[protocol.IDs] + d.services.Requests.IDs.Load() + d.services.Called.IDs.Load()
}

// loginCounts returns how often somebody logged in, and how often that failed.
func (d *Daemon) loginCounts(n *protocol.Counts) (all, failed uint64) {
	h, a, g := &d.services.Requests, &d.services.Administered, &d.services.Called
	return n[protocol.CmdAuth] + h.Logins.Load() + a.Logins.Load() + g.Logins.Load(),
		n[protocol.AuthErrors] + h.LoginErrors.Load() + a.LoginErrors.Load() + g.LoginErrors.Load()
}

// figures emits what /metrics shows.
func (d *Daemon) figures(emit func(figure.Figure)) {
	n := d.front.Counts()
	info := func(metric, help, worry string, labels ...string) {
		emit(figure.Figure{Metric: metric, Value: 1, Help: help, Worry: worry, Labels: labels})
	}
	info("build_info", "What is running; always 1.", "",
		"version", d.c.Version, "goversion", runtime.Version(), "engine", d.front.Engine())
	emit(figure.Figure{
		Metric: "ids_issued_total", Value: d.issued(&n), Count: true,
		Help: "Ids handed out.",
	})
	d.commandFigures(&n, emit)
	emit(figure.Figure{
		Metric: "request_duration_seconds", Value: d.front.Latency(),
		Help: "Time from a request's last byte read to its answer handed to the kernel; what one read brings is " +
			"one request.",
		Worry: "the 99th percentile is above 5 ms for ten minutes: the CPU is short, or a store that requests wait " +
			"for is slow",
	})
	d.ownFigures(&n, emit)
	d.names.LeaderFigures(emit)
	d.names.Metrics(d.clock.Now(), emit)
}

// commandFigures emits the counts of commands, and of errors that no issuer counts.
func (d *Daemon) commandFigures(n *protocol.Counts, emit func(figure.Figure)) {
	logins, failed := d.loginCounts(n)
	for command, v := range map[string]uint64{
		"get": n[protocol.CmdGet], "gets": n[protocol.CmdGets], "gat": n[protocol.CmdGat], "mg": n[protocol.CmdMetaGet],
		"meta": n[protocol.CmdMeta], "ids": n[protocol.CmdIDs], "set": n[protocol.CmdSet], "touch": n[protocol.CmdTouch],
		"delete": n[protocol.CmdDelete], "incr": n[protocol.CmdIncr], "flush": n[protocol.CmdFlush],
		"stats": n[protocol.CmdStats], "version": n[protocol.CmdVersion], "auth": logins, "other": n[protocol.CmdOther],
		"http": d.services.Requests.Requests.Load(), "grpc": d.services.Called.Requests.Load(),
	} {
		emit(figure.Figure{
			Metric: "commands_total", Labels: []string{"command", command}, Value: v, Count: true,
			Help: "Commands by kind.",
		})
	}
	for reason, v := range map[string]uint64{
		"malformed": n[protocol.Malformed], "too_long": n[protocol.TooLong],
		"unauthenticated": n[protocol.Unauthenticated], "authentication": failed,
	} {
		emit(windows.ErrorsFor(reason, "", v))
	}
}

// trafficFigures emits what is known of memory, UDP, the log, the clock and the connections.
func (d *Daemon) trafficFigures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Stat: "log_lines_dropped", Metric: "log_lines_dropped_total", Value: d.logDropped(), Count: true,
		Help:  "Log lines that could not be written.",
		Worry: "grows: nobody reads the log, or its disk is full or stalls. Nothing else is affected",
	})
	d.front.Figures(emit)
	emit(figure.Figure{
		Stat: "clock_difference_ms", Metric: "clock_difference_seconds", Value: d.clock.Difference(),
		Help:  "Wall clock minus id clock.",
		Worry: "more than a second: the wall clock was stepped, or is wrong",
	})
	d.services.Figures(emit)
}
