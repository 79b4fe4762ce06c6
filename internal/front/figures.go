package front

import (
	"fmt"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/figure"
	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/page"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// Engine returns the name of the engine.
func (f *Front) Engine() string { return f.engine.Name() }

// Counts returns the counts of all loops together.
func (f *Front) Counts() (sum protocol.Counts) {
	for i := range f.commands {
		f.commands[i].AddTo(&sum)
	}
	return sum
}

// Latency returns how long answers took, of all loops together.
func (f *Front) Latency() *latency.Snapshot {
	sum := new(latency.Snapshot)
	for i := range f.latency {
		sum.Add(&f.latency[i])
	}
	return sum
}

// Figures emits what is known of memory, UDP and the connections.
func (f *Front) Figures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Stat: "idle_closed_connections", Metric: "connections_idle_closed_total",
		Value: f.Connections.IdleClosed.Load(), Count: true,
		Help: "Connections closed by the idle time-out.",
	})
	emit(figure.Figure{
		Stat: "memory_closed_connections", Metric: "connections_memory_closed_total",
		Value: f.Budget.Closed(), Count: true,
		Help: "Connections closed for holding most of the buffer memory when it was used up.",
		Worry: "grows: clients that do not read, or do not end their lines, were closed because the " +
			"memory was used up",
	})
	emit(figure.Figure{
		Stat: "buffer_memory_bytes", Metric: "buffer_memory_bytes", Value: f.Budget.Held(),
		Help:  "Memory of unfinished input and unsent output.",
		Worry: "above nine tenths of its limit: clients do not read, or do not end their lines",
	})
	emit(figure.Figure{
		Stat: "buffer_memory_limit_bytes", Metric: "buffer_memory_limit_bytes", Value: f.Budget.Limit(),
		Help: "The limit of the memory of unfinished input and unsent output; 0: none.",
	})
	emit(figure.Figure{
		Stat: "udp_datagrams", Metric: "udp_datagrams_total", Value: f.Connections.Datagrams.Load(), Count: true,
		Help: "Datagrams received by the UDP port.",
	})
	emit(figure.Figure{
		Stat: "udp_dropped", Metric: "udp_dropped_total", Value: f.Connections.DatagramsDropped.Load(), Count: true,
		Help:  "Datagrams that got no reply.",
		Worry: "dashboard only: grows: requests were malformed or too many; their clients got no answer",
	})
	f.connectionFigures(emit)
}

// connectionFigures emits what only /metrics has of the engine's connections: the statistics have it
// under memcached's names.
func (f *Front) connectionFigures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Metric: "connections", Value: f.Connections.Current.Load(),
		Help:  "Open connections.",
		Worry: "above nine tenths of `connections_limit`",
	})
	emit(figure.Figure{
		Metric: "connections_limit", Value: f.c.MaxConnections,
		Help: "The limit of open connections; 0: none.",
	})
	emit(figure.Figure{
		Metric: "connections_accepted_total", Value: f.Connections.Total.Load(), Count: true,
		Help:  "Connections accepted.",
		Worry: "dashboard only: grows much faster than the clients do: they connect for each request",
	})
	emit(figure.Figure{
		Metric: "connections_refused_total", Value: f.Connections.Refused.Load(), Count: true,
		Help:  "Connections closed at once for being over the limit.",
		Worry: "grows: too many clients",
	})
	emit(figure.Figure{
		Metric: "accept_errors_total", Value: f.Connections.AcceptErrors.Load(), Count: true,
		Help:  "Failures to accept a connection.",
		Worry: "grows: too few descriptors (`LimitNOFILE`)",
	})
	emit(figure.Figure{
		Metric: "read_bytes_total", Value: f.Connections.BytesRead.Load(), Count: true,
		Help: "Bytes read from clients.",
	})
	emit(figure.Figure{
		Metric: "written_bytes_total", Value: f.Connections.BytesWritten.Load(), Count: true,
		Help: "Bytes written to clients.",
	})
}

// certificateWorry has the threshold of the status page and the log.
var certificateWorry = fmt.Sprintf("less than %d days: renew the certificate, then SIGHUP. The log warns of it at a "+
	"start and a reload only", page.CertificateShort/(24*time.Hour))

// CertificateFigures emits until when the certificate is valid, if a port uses it.
func (f *Front) CertificateFigures(emit func(figure.Figure)) {
	if !f.Certified() {
		return
	}
	_, until := f.TLS.Valid()
	emit(figure.Figure{Stat: "tls_certificate_days_left", Value: int64(time.Until(until) / (24 * time.Hour))})
	emit(figure.Figure{
		Metric: "tls_certificate_left_seconds", Value: time.Until(until), Worry: certificateWorry,
		Help: "Time until the certificate in force expires.",
	})
}

// LoginFigures emits what is known of the comparisons of passwords with hashes, if clients must log in.
func (f *Front) LoginFigures(emit func(figure.Figure)) {
	l := f.logins
	if l == nil {
		return
	}
	emit(figure.Figure{
		Stat: "login_comparisons", Metric: "login_comparisons_total", Value: l.verifier.Compared(), Count: true,
		Help: "Passwords compared with hashes.",
	})
	emit(figure.Figure{
		Stat: "logins_waiting", Metric: "logins_waiting", Value: l.verifier.Waiting(),
		Help: "Comparisons of passwords that wait or run.",
		Worry: "above 50 for two minutes: more logins than the daemon has time to compare with hashes. Give " +
			"programs tokens, or keep their connections open",
	})
	emit(figure.Figure{
		Stat: "logins_busy", Metric: "logins_busy_total", Value: l.busy.Load(), Count: true,
		Help:  "Logins refused because too many others waited.",
		Worry: "grows: too many logins wait, and the daemon refuses more",
	})
}
