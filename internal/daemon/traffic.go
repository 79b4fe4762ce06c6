package daemon

import "github.com/katsubushi/katsubushi/v3/internal/figure"

// trafficFigures emits what is known of memory, UDP, the log, the clock and the connections.
func (d *Daemon) trafficFigures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Stat: "log_lines_dropped", Metric: "log_lines_dropped_total", Value: d.logDropped(), Count: true,
		Help:  "Log lines that could not be written.",
		Worry: "grows: nobody reads the log, or its disk is full or stalls. Nothing else is affected",
	})
	emit(figure.Figure{
		Stat: "idle_closed_connections", Metric: "connections_idle_closed_total",
		Value: d.connections.IdleClosed.Load(), Count: true,
		Help: "Connections closed by the idle time-out.",
	})
	emit(figure.Figure{
		Stat: "memory_closed_connections", Metric: "connections_memory_closed_total",
		Value: d.budget.Closed(), Count: true,
		Help: "Connections closed for holding most of the buffer memory when it was used up.",
		Worry: "grows: clients that do not read, or do not end their lines, were closed because the " +
			"memory was used up",
	})
	emit(figure.Figure{
		Stat: "buffer_memory_bytes", Metric: "buffer_memory_bytes", Value: d.budget.Held(),
		Help:  "Memory of unfinished input and unsent output.",
		Worry: "above nine tenths of its limit: clients do not read, or do not end their lines",
	})
	emit(figure.Figure{
		Stat: "buffer_memory_limit_bytes", Metric: "buffer_memory_limit_bytes", Value: d.budget.Limit(),
		Help: "The limit of the memory of unfinished input and unsent output; 0: none.",
	})
	emit(figure.Figure{
		Stat: "udp_datagrams", Metric: "udp_datagrams_total", Value: d.connections.Datagrams.Load(), Count: true,
		Help: "Datagrams received by the UDP port.",
	})
	emit(figure.Figure{
		Stat: "udp_dropped", Metric: "udp_dropped_total", Value: d.connections.DatagramsDropped.Load(), Count: true,
		Help: "Datagrams that got no reply.",
		Worry: "dashboard only: grows: requests that were malformed or too many; nothing was said to " +
			"their clients",
	})
	emit(figure.Figure{
		Stat: "clock_difference_ms", Metric: "clock_difference_seconds", Value: d.clock.Difference(),
		Help:  "Wall clock minus id clock.",
		Worry: "more than a second: the wall clock was stepped, or is wrong",
	})
	d.connectionFigures(emit)
	d.serviceFigures(emit)
}

// connectionFigures emits what only /metrics has of the engine's connections: the statistics have it
// under memcached's names.
func (d *Daemon) connectionFigures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Metric: "connections", Value: d.connections.Current.Load(),
		Help:  "Open connections.",
		Worry: "above nine tenths of `connections_limit`",
	})
	emit(figure.Figure{
		Metric: "connections_limit", Value: d.c.MaxConnections,
		Help: "The limit of open connections; 0: none.",
	})
	emit(figure.Figure{
		Metric: "connections_accepted_total", Value: d.connections.Total.Load(), Count: true,
		Help:  "Connections accepted.",
		Worry: "dashboard only: grows much faster than the clients do: they connect for each request",
	})
	emit(figure.Figure{
		Metric: "connections_refused_total", Value: d.connections.Refused.Load(), Count: true,
		Help:  "Connections closed at once for being over the limit.",
		Worry: "grows: too many clients",
	})
	emit(figure.Figure{
		Metric: "accept_errors_total", Value: d.connections.AcceptErrors.Load(), Count: true,
		Help:  "Failures to accept a connection.",
		Worry: "grows: too few descriptors (`LimitNOFILE`)",
	})
	emit(figure.Figure{
		Metric: "read_bytes_total", Value: d.connections.BytesRead.Load(), Count: true,
		Help: "Bytes read from clients.",
	})
	emit(figure.Figure{
		Metric: "written_bytes_total", Value: d.connections.BytesWritten.Load(), Count: true,
		Help: "Bytes written to clients.",
	})
}

// serviceFigures emits the connections of the HTTP port and the gRPC port.
func (d *Daemon) serviceFigures(emit func(figure.Figure)) {
	emit(figure.Figure{
		Metric: "http_connections", Value: d.requests.Connections.Load(),
		Help:  "Open connections of the HTTP port.",
		Worry: "above nine tenths of its limit",
	})
	emit(figure.Figure{
		Metric: "http_connections_limit", Value: HTTPConnections(d.c.MaxConnections),
		Help: "The limit of open connections of the HTTP port.",
	})
	emit(figure.Figure{
		Metric: "http_connections_refused_total", Value: d.requests.ConnectionsRefused.Load(), Count: true,
		Help:  "Connections of the HTTP port closed for being over its limit.",
		Worry: "grows: all connections of the HTTP port are busy, and more clients came",
	})
	emit(figure.Figure{
		Metric: "http_connections_evicted_total", Value: d.requests.ConnectionsEvicted.Load(), Count: true,
		Help: "Silent connections of the HTTP port closed at its limit to make room.",
		Worry: "dashboard only: grows: clients keep HTTP connections that they do not use; new clients " +
			"replaced them",
	})
	emit(figure.Figure{
		Metric: "grpc_connections", Value: d.called.Connections.Load(),
		Help: "Open connections of the gRPC port, which are among the connections.",
	})
	emit(figure.Figure{
		Metric: "grpc_connections_stalled_total", Value: d.called.Stalled.Load(), Count: true,
		Help:  "Connections of the gRPC port closed because of calls that did not end.",
		Worry: "dashboard only: grows: clients open calls and do not end them",
	})
}
