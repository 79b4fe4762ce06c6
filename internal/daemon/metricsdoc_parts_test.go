package daemon

// metricsIntro begins docs/METRICS.md.
const metricsIntro = "# Metrics\n\n<!-- not ours: process_open_fds process_max_fds -->\n" + `
` + "`/metrics`" + ` on the HTTP port serves these metrics to Prometheus. Below each metric are its names in ` +
	"`stats`" + ` and
` + "`/stats`" + `, where times are in ms and N is a number. "When to worry" ends with the [alerts](../deploy/prometheus/katsubushi.rules.yml) of that metric. They and
the [dashboard](../deploy/grafana/katsubushi.json) expect one scrape job for each fleet: the daemons of one job share worker ids and sequences. The
daemon reads its figures once a second at most.

There are also the metrics of the Go runtime (` + "`go_...`) and of the process (`process_cpu_seconds_total`, `process_open_fds`, `process_max_fds`" + ` and others).
`

// A metricPart is a section of docs/METRICS.md: the metrics whose names, without katsubushi_, begin like
// this. The first part takes what is left.
type metricPart struct {
	title, text string
	prefixes    []string
}

var metricParts = []metricPart{
	{title: "Ids and the daemon"},
	{title: "Latency", prefixes: []string{"request_duration"}, text: `The time runs from reading a request's last byte to handing its answer to the kernel. All requests of one read, also pipelined
ones, count as one. The daemon measures a random sixteenth of the turns of a loop, and every turn of a loop that does little; ` + "`_count`" + ` is exact but
for the last few, and quantiles over a minute come close. A request that waits (for a block of a sequence, a leader, the comparison of a password) counts from when it began to wait.
UDP, HTTP and gRPC are not included.

A Prometheus that scrapes native histograms gets buckets that are each 9 % wider than the one before, others the classic ones:
` + "`histogram_quantile(0.99, sum by (le) (rate(katsubushi_request_duration_seconds_bucket[5m])))`"},
	{title: "Connections and memory",
		prefixes: []string{"connections", "http_", "grpc_", "buffer_", "accept_", "read_", "written_", "udp_"}},
	{title: "Clock", prefixes: []string{"clock_"}},
	{title: "Leases and windows", prefixes: []string{"lane", "run_ahead", "window_", "lease_"},
		text: "Windows come from a state file or from the store of `-store`. Each lane, a slot for one worker id, " +
			"has its own."},
	{title: "Declared names", prefixes: []string{"generator_"},
		text: "The first 1,000 names have series of their own. The others are added up as " +
			"`generator=\"_other\"`, which is ready while all of\n" +
			"them are. Values are those of sequences. Where users must log in, `last` and `left` are missing,\n" +
			"because they reveal ids; `stats generators` has them."},
	{title: "Leaders of sequences in strict order", prefixes: []string{"leader_", "forward_"},
		text: "Only where [etcd](SEQUENCES.md#strict-order-in-etcd) elects leaders."},
	{title: "Peers", prefixes: []string{"peers", "announcement"},
		text: "Only with a store where daemons [announce themselves](DISCOVERY.md)."},
	{title: "Logins and TLS", prefixes: []string{"login", "tls_"}, text: "Only with users, or a certificate."},
}

// dashboardOnly begins what is said of metrics that no alert asks for.
const dashboardOnly = "dashboard only: "
