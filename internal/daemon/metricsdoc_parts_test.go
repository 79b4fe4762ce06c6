package daemon

// metricsIntro begins docs/METRICS.md.
const metricsIntro = "# Metrics\n\n<!-- not ours: process_open_fds process_max_fds -->\n" + `
What ` + "`/metrics`" + ` on the HTTP port (` + "`-http-port`" + `) tells Prometheus. This page is made from the program: a test compares them.
[deploy/prometheus](../deploy/prometheus/katsubushi.rules.yml) has alerts for what is said here under "when to worry", each with what to
do; their names follow there, and what has none says "dashboard only". [A dashboard](../deploy/grafana/katsubushi.json)
to import is in deploy/grafana. Both expect one scrape job for each fleet: the daemons of one job share worker ids
and sequences. ` + "`stats`" + ` has the same figures under [other names](PROTOCOL.md#statistics).
The figures are read once a second at most, so two scrapes that come close to each other show the same.

Besides these there are the metrics of the Go runtime (` + "`go_...`" + `) and of the process (` + "`process_cpu_seconds_total`, `process_open_fds`, `process_max_fds`" + ` and others).
`

// A metricPart is a section of docs/METRICS.md: the metrics whose names, without katsubushi_, begin like
// this. The first part takes what is left.
type metricPart struct {
	title, text string
	prefixes    []string
}

var metricParts = []metricPart{
	{title: "Ids and the daemon"},
	{title: "Latency", prefixes: []string{"request_duration"}, text: `The time runs from when an event loop has the last byte of a request until it hands the answer to the kernel: with io_uring
until it calls the kernel that sends the answers of a turn, with epoll until it has sent the last of them, with the portable
engine until it begins to send. A turn of an event loop answers many clients, and each counts with the time of the whole turn. What one
read brings, pipelined requests too, is one request. One turn in sixteen and a half on average is measured, at random distances, and on a
loop that does little each one; the requests in between count with the next turn that is measured. So ` + "`_count`" + ` is exact,
and quantiles over a minute come close to those of all requests. A request that waits (for a block of a sequence, a leader, the comparison of a
password) counts from when it began to wait. UDP, HTTP and gRPC are not included.

A Prometheus that scrapes native histograms gets buckets that are each 9 % wider than the one before, others the classic ones:
` + "`histogram_quantile(0.99, sum by (le) (rate(katsubushi_request_duration_seconds_bucket[5m])))`"},
	{title: "Connections and memory",
		prefixes: []string{"connections", "http_", "grpc_", "buffer_", "accept_", "read_", "written_", "udp_"}},
	{title: "Clock", prefixes: []string{"clock_"}},
	{title: "Leases and windows", prefixes: []string{"lane", "run_ahead", "window_", "lease_"},
		text: "Windows come from a state file or from the store of `-store`. Each lane, a slot for one worker id, " +
			"has its own."},
	{title: "Declared names", prefixes: []string{"generator_"},
		text: "The first 1,000 names have series of their own. The counts of all others are added up as " +
			"`generator=\"_other\"`, which is ready while all of\n" +
			"them are. What is said of values is about sequences. Where users must log in, `last` and `left`\n" +
			"are missing: they tell ids, and `/metrics` needs no login. `stats generators` has them."},
	{title: "Leaders of sequences in strict order", prefixes: []string{"leader_", "forward_"},
		text: "Only where [etcd](SEQUENCES.md#strict-order-in-etcd) elects them."},
	{title: "Peers", prefixes: []string{"peers", "announcement"},
		text: "Only with a store where daemons [announce themselves](DISCOVERY.md)."},
	{title: "Logins and TLS", prefixes: []string{"login", "tls_"}, text: "Only with users, or a certificate."},
}

// dashboardOnly begins what is said of metrics that no alert asks for.
const dashboardOnly = "dashboard only: "
