package daemon

import "github.com/katsubushi/katsubushi/v3/internal/figure"

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
	d.serviceFigures(emit)
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
