package observe

import (
	"encoding/json"
	"fmt"
	"net/netip"
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

// NineStats returns the statistics that kayac/go-katsubushi has.
func (o *Observer) NineStats() *katsubushipb.StatsResponse {
	n := o.front.Counts()
	issued := o.issued(&n)
	refused := n[protocol.Refused] + o.services.Requests.Refused.Load() + o.services.Called.Refused.Load()
	return &katsubushipb.StatsResponse{
		Pid:              int32(os.Getpid()),
		Uptime:           int64(time.Since(o.c.Started).Seconds()),
		Time:             o.windows.Clock.Now() / 1000,
		Version:          o.c.Version,
		CurrConnections:  o.front.Connections.Current.Load(),
		TotalConnections: int64(o.front.Connections.Total.Load()),
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

// Stats emits a group of memcached's statistics, and reports whether the group exists.
func (o *Observer) Stats(group []byte, emit func(name, value string)) bool {
	show := func(f figure.Figure) { // at once: 10,000 names have 60,000 figures
		if f.Stat == "" {
			return
		}
		value := f.Shown()
		switch v := value.(type) {
		case bool:
			value = count(v)
		case float64:
			value = strconv.FormatFloat(v, 'f', -1, 64) // not 1e+06
		}
		emit(f.Stat, fmt.Sprint(value))
	}
	var list []figure.Figure
	switch string(group) {
	case "":
		list = slices.DeleteFunc(o.GeneralStats(), isText)
	case "settings":
		list = o.settingStats()
	case "slabs":
		list = []figure.Figure{{Stat: "active_slabs", Value: 0}, {Stat: "total_malloced", Value: 0}}
	case "lanes":
		windows.ReadyFigures(o.Ready(), show)
		o.windows.LaneFigures(show)
	case "leases":
		o.windows.LeaseFigures(show)
	case "generators":
		o.names.Catalog.Stats(o.windows.Clock.Now(), show)
		o.names.LeaderFigures(show)
	case "items": // memcached's is empty too when it stores nothing
	default:
		return false
	}
	for _, f := range list {
		show(f)
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

// GeneralStats returns what /stats shows, and `stats` without the texts: kayac's nine names first,
// in its order, then those of memcached's that monitors read, then our own.
func (o *Observer) GeneralStats() []figure.Figure {
	var list []figure.Figure
	add := func(name string, value any) { list = append(list, figure.Figure{Stat: name, Value: value}) }
	n, nine := o.front.Counts(), o.NineStats()
	add("pid", nine.Pid)
	add("uptime", nine.Uptime)
	add("time", nine.Time)
	add("version", nine.Version)
	add("curr_connections", nine.CurrConnections)
	add("total_connections", nine.TotalConnections)
	add("cmd_get", nine.CmdGet)
	add("get_hits", nine.GetHits)
	add("get_misses", nine.GetMisses)
	o.memcachedStats(&n, add)
	o.ownFigures(&n, collected(&list))
	if groups, elects := o.names.Leads(); elects {
		add("leader_groups", groups) // the other daemons ask for it, and `stats generators` may be long
	}
	return list
}

// memcachedStats adds what memcached's statistics have too.
func (o *Observer) memcachedStats(n *protocol.Counts, add func(name string, value any)) {
	user, system := cpuTime()
	add("pointer_size", strconv.IntSize)
	add("rusage_user", seconds(user))
	add("rusage_system", seconds(system))
	add("max_connections", o.c.Front.MaxConnections)
	add("rejected_connections", o.front.Connections.Refused.Load())
	add("connection_structures", o.front.Connections.Current.Load())
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
	logins, failed := o.loginCounts(n)
	add("auth_cmds", logins)
	add("auth_errors", failed)
	add("bytes_read", o.front.Connections.BytesRead.Load())
	add("bytes_written", o.front.Connections.BytesWritten.Load())
	for _, name := range []string{"limit_maxbytes", "bytes", "curr_items", "total_items", "evictions", "reclaimed",
		"conn_yields"} {
		add(name, 0) // nothing is stored
	}
	add("idle_kicks", o.front.Connections.IdleClosed.Load())
	add("accepting_conns", count(!o.stopping.Load()))
	add("listen_disabled_num", o.front.Connections.AcceptErrors.Load())
	add("threads", o.c.Front.Loops)
}

// ownFigures emits what the general group has that no memcached has, and what belongs to that on /metrics.
func (o *Observer) ownFigures(n *protocol.Counts, emit func(figure.Figure)) {
	now := o.windows.Clock.Now()
	emit(figure.Figure{Stat: "engine", Value: o.front.Engine()})
	windows.ReadyFigures(o.Ready(), emit)
	emit(figure.Figure{
		Stat: "get_requests",
		Value: n[protocol.CmdGet] + n[protocol.CmdGets] + n[protocol.CmdGat] + n[protocol.CmdMetaGet] +
			n[protocol.CmdIDs] + o.services.Requests.Requests.Load() + o.services.Called.Requests.Load(),
	})
	o.windows.RefusalFigures(emit)
	o.trafficFigures(emit)
	left := o.c.Windows.Layout.End() - now
	emit(figure.Figure{Stat: "time_field_days_left", Value: left / (24 * time.Hour).Milliseconds()})
	o.front.CertificateFigures(emit)
	o.windows.Figures(emit)
	o.front.LoginFigures(emit)
	for _, f := range []figure.Figure{
		{Stat: "cmd_ids", Value: n[protocol.CmdIDs]},
		// memcached's since 1.6.18; no slab is ever reassigned
		{Stat: "slab_reassign_busy_nomem", Value: 0},
		{Stat: "slab_reassign_last_busy_status", Value: "none"},
		{Stat: "ssl_proto_errors", Value: o.front.Connections.HandshakeErrors.Load()},
	} {
		emit(f)
	}
}

func (o *Observer) settingStats() []figure.Figure {
	sock, port := o.c.Front.Sock, o.c.Front.Port
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
		{Stat: "maxconns", Value: o.c.Front.MaxConnections},
		{Stat: "tcpport", Value: port},
		{Stat: "udpport", Value: o.c.Front.UDPPort},
		{Stat: "inter", Value: text(o.c.Front.Bind)},
		{Stat: "verbosity", Value: 0},
		{Stat: "oldest", Value: 0},
		{Stat: "evictions", Value: "off"},
		{Stat: "domain_socket", Value: text(sock)},
		{Stat: "umask", Value: strconv.FormatUint(uint64(o.c.Front.SockMode), 8)},
		{Stat: "num_threads", Value: o.c.Front.Loops},
		{Stat: "stat_key_prefix", Value: ":"},
		{Stat: "detail_enabled", Value: "no"},
		{Stat: "cas_enabled", Value: "yes"},
		{Stat: "binding_protocol", Value: "auto-negotiate"},
		{Stat: "auth_enabled_sasl", Value: yes(o.c.Front.HasLogins())},
		{Stat: "auth_enabled_ascii", Value: yes(o.c.Front.HasLogins())},
		{Stat: "item_size_max", Value: memcache.MaxBody},
		{Stat: "maxconns_fast", Value: "yes"},
		{Stat: "flush_enabled", Value: "yes"},
		{Stat: "idle_timeout", Value: int64(o.c.Front.IdleTimeout.Seconds())},
		{Stat: "ssl_enabled", Value: yes(o.front.Encrypted())},
		{Stat: "engine", Value: o.front.Engine()},
		{Stat: "lanes", Value: o.windows.Issuer.Lanes()},
		{Stat: "layout", Value: o.c.Windows.Layout.Name},
		{Stat: "max_run_ahead_ms", Value: o.c.Windows.MaxRunAhead.Milliseconds()},
	}
	httpPort := o.c.Services.HTTPPort
	if o.c.Services.HTTPByDefault && !o.services.Serves("http-port") { // it was taken
		httpPort = 0
	}
	list = append(list,
		figure.Figure{Stat: "redis_port", Value: o.c.Front.RedisPort},
		figure.Figure{Stat: "http_port", Value: httpPort},
		figure.Figure{Stat: "http_bind", Value: text(o.httpBind())},
		figure.Figure{Stat: "grpc_port", Value: o.c.Services.GRPCPort},
		figure.Figure{Stat: "admin_port", Value: o.c.Services.AdminPort},
		figure.Figure{Stat: "advertise", Value: text(o.c.Advertise)})
	if o.leased() {
		list = append(list, figure.Figure{Stat: "lease_fingerprint", Value: o.c.Store.Fingerprint()})
	}
	return append(list, figure.Figure{Stat: "client_flags_size", Value: 4})
}

// httpBind returns the address of the HTTP port; "" = all, or there is none.
func (o *Observer) httpBind() string {
	for _, a := range o.services.Addresses() {
		at, err := netip.ParseAddrPort(a.At.String())
		if err == nil && a.Title == "HTTP" && !at.Addr().IsUnspecified() {
			return at.Addr().Unmap().String()
		}
	}
	return ""
}

func (o *Observer) logDropped() uint64 {
	if o.c.LogDropped == nil {
		return 0
	}
	return o.c.LogDropped()
}

// issued returns how many ids clients got, on all ports.
func (o *Observer) issued(n *protocol.Counts) uint64 {
	return n[protocol.IDs] + o.services.Requests.IDs.Load() + o.services.Called.IDs.Load()
}

// loginCounts returns how often somebody logged in, and how often that failed.
func (o *Observer) loginCounts(n *protocol.Counts) (all, failed uint64) {
	h, a, g := &o.services.Requests, &o.services.Administered, &o.services.Called
	return n[protocol.CmdAuth] + h.Logins.Load() + a.Logins.Load() + g.Logins.Load(),
		n[protocol.AuthErrors] + h.LoginErrors.Load() + a.LoginErrors.Load() + g.LoginErrors.Load()
}

// Figures emits what /metrics shows.
func (o *Observer) Figures(emit func(figure.Figure)) {
	n := o.front.Counts()
	info := func(metric, help, worry string, labels ...string) {
		emit(figure.Figure{Metric: metric, Value: 1, Help: help, Worry: worry, Labels: labels})
	}
	info("build_info", "What is running; always 1.", "",
		"version", o.c.Version, "goversion", runtime.Version(), "engine", o.front.Engine())
	emit(figure.Figure{
		Metric: "ids_issued_total", Value: o.issued(&n), Count: true,
		Help: "Ids handed out.",
	})
	o.commandFigures(&n, emit)
	emit(figure.Figure{
		Metric: "request_duration_seconds", Value: o.front.Latency(),
		Help: "Time from reading a request's last byte to handing its answer to the kernel; all input of one read " +
			"is one request.",
		Worry: "the 99th percentile is above 5 ms for ten minutes: the CPU is overloaded, or a store that " +
			"requests wait for is slow",
	})
	o.ownFigures(&n, emit)
	o.names.LeaderFigures(emit)
	o.names.Metrics(emit)
}

// commandFigures emits the counts of commands, and of errors that no issuer counts.
func (o *Observer) commandFigures(n *protocol.Counts, emit func(figure.Figure)) {
	logins, failed := o.loginCounts(n)
	for command, v := range map[string]uint64{
		"get": n[protocol.CmdGet], "gets": n[protocol.CmdGets], "gat": n[protocol.CmdGat], "mg": n[protocol.CmdMetaGet],
		"meta": n[protocol.CmdMeta], "ids": n[protocol.CmdIDs], "set": n[protocol.CmdSet], "touch": n[protocol.CmdTouch],
		"delete": n[protocol.CmdDelete], "incr": n[protocol.CmdIncr], "flush": n[protocol.CmdFlush],
		"stats": n[protocol.CmdStats], "version": n[protocol.CmdVersion], "auth": logins, "other": n[protocol.CmdOther],
		"http": o.services.Requests.Requests.Load(), "grpc": o.services.Called.Requests.Load(),
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
func (o *Observer) trafficFigures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Stat: "log_lines_dropped", Metric: "log_lines_dropped_total", Value: o.logDropped(), Count: true,
		Help:  "Log lines that could not be written.",
		Worry: "grows: no program reads the log, or its disk is full or stalls. Requests are not affected",
	})
	o.front.Figures(emit)
	emit(figure.Figure{
		Stat: "clock_difference_ms", Metric: "clock_difference_seconds", Value: o.windows.Clock.Difference(),
		Help:  "Wall clock minus id clock.",
		Worry: "more than a second: the wall clock was stepped, or is wrong",
	})
	o.services.Figures(emit)
}
