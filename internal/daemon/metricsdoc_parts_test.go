package daemon

// metricsIntro begins docs/METRICS.md.
const metricsIntro = "# Metrics\n\n<!-- not ours: process_open_fds process_max_fds -->\n" + `
What ` + "`/metrics`" + ` on the HTTP port (` + "`-http-port`" + `) tells Prometheus. This page is made from the program: a test compares them.
[deploy/prometheus](../deploy/prometheus/katsubushi.rules.yml) has alerts for what is said here under "when to worry", each with what to
do, and [deploy/grafana](../deploy/grafana/katsubushi.json) a dashboard to import. Both expect one scrape job for each fleet: the daemons of
one job share worker ids and sequences. ` + "`stats`" + ` has the same figures under [other names](PROTOCOL.md#statistics).
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
	{title: "Connections and memory", prefixes: []string{"connections", "http_", "grpc_", "buffer_", "accept_", "read_", "written_", "udp_"}},
	{title: "Clock", prefixes: []string{"clock_"}},
	{title: "Leases and windows", prefixes: []string{"lane", "run_ahead", "window_", "lease_"},
		text: "Windows come from a state file or from the store of `-store`. Each lane, a slot for one worker id, has its own."},
	{title: "Declared names", prefixes: []string{"generator_"}, text: "The first 1,000 names have series of their own. The counts of all others are added up as `generator=\"_other\"`, which is ready while all of\n" +
		"them are. What is said of values is about sequences."},
	{title: "Leaders of sequences in strict order", prefixes: []string{"leader_", "forward_"},
		text: "Only where [etcd](SEQUENCES.md#strict-order-in-etcd) elects them."},
	{title: "Peers", prefixes: []string{"peers", "announcement"}, text: "Only with a store where daemons [announce themselves](DISCOVERY.md)."},
	{title: "Logins and TLS", prefixes: []string{"login", "tls_"}, text: "Only with users, or a certificate."},
}

// worries says when to worry about each metric; empty = nobody need.
var worries = map[string]string{
	"build_info":              "",
	"layout_info":             "daemons of one job differ in `fingerprint`: their ids may be equal",
	"ids_issued_total":        "",
	"commands_total":          "",
	"errors_total":            "`clock_behind` grows: this host's clock went back; the log says by how much. `rate_exceeded`: more ids are asked for than its worker ids have; add lanes. `authentication`: wrong passwords; the log names the peer that sent most. `lease_expired`, `no_worker_id`: see the leases",
	"ready":                   "0 for more than a minute: its clients get errors; `/readyz` says why",
	"log_lines_dropped_total": "grows: nobody reads the log, or its disk is full or stalls. Nothing else is affected",
	"time_field_left_seconds": "years before it is 0, plan for another layout",

	"request_duration_seconds": "the 99th percentile is above 5 ms for ten minutes: the CPU is short, or a store that requests wait for is slow",

	"connections":                             "near `connections_limit`",
	"connections_limit":                       "",
	"connections_accepted_total":              "grows much faster than the clients do: they connect for each request",
	"connections_refused_total":               "grows: too many clients",
	"connections_idle_closed_total":           "",
	"connections_memory_closed_total":         "grows: clients that do not read, or do not end their lines, were closed because the memory was used up",
	"http_connections":                        "near its limit",
	"http_connections_limit":                  "",
	"http_connections_refused_total":          "grows: all connections of the HTTP port are busy, and more clients came",
	"http_connections_evicted_total":          "grows: clients keep HTTP connections that they do not use; new clients replaced them",
	"grpc_connections":                        "",
	"grpc_connections_stalled_total":          "grows: clients open calls and do not end them",
	"buffer_memory_bytes":                     "near its limit: clients do not read, or do not end their lines",
	"buffer_memory_limit_bytes":               "",
	"accept_errors_total":                     "grows: too few descriptors (`LimitNOFILE`)",
	"read_bytes_total":                        "",
	"written_bytes_total":                     "",
	"udp_datagrams_total":                     "",
	"udp_dropped_total":                       "grows: requests that were malformed or too many; nothing was said to their clients",
	"clock_difference_seconds":                "more than half a second for minutes: the wall clock was stepped, or is wrong",
	"clock_adjustments_total":                 "`forward`, `backward`, `suspend` grow: who sets this clock?",
	"lanes":                                   "",
	"lane_state":                              "`degraded` or `exhausted` for 15 s: the store does not extend. `draining` or `acquiring` for a minute: no worker id is available. Two daemons of one job with one `worker_id`: they issue equal ids",
	"run_ahead_seconds":                       "near `-max-run-ahead`: more ids are asked for than the worker id has",
	"window_left_seconds":                     "falls towards 0, where the lane stops: the window is not being extended. With a lease of a minute, below 40: three heartbeats were missed. With a state file, below 0.5",
	"lease_last_extension_timestamp_seconds":  "`time()` minus it over 15, or three of your heartbeats: nothing is extended. It appears after the first extension",
	"lease_extensions_total":                  "`lost` grows: the store lost data, `lease release` was used, or somebody deletes keys. `failed` (an error) and `unanswered` (none in 1 s) grow: the log and `lane_0_reason` in `stats lanes` say why",
	"lease_acquisitions_total":                "`none_free` grows for more than a lease's length: the pool has too few worker ids for this fleet. `failed`: the store is away or refuses",
	"lease_call_duration_seconds":             "the rate of `_sum` by that of `_count` over 0.2: the store (or the disk) is slow; at 1 s it counts as unanswered",
	"lease_redis_clock_ahead_seconds":         "more than half of `-max-skew` (2 s) either way: set it right before extensions are refused",
	"lease_redis_info":                        "`count(count by (history) (katsubushi_lease_redis_info)) > 1` for a minute: daemons of one pool talk to two masters",
	"lease_redis_replicas":                    "below the number needed, if that is not 0: leases are not extended. Bring the replica back, or `lease replicas`",
	"lease_redis_replicas_needed":             "",
	"lease_etcd_info":                         "`count(count by (epoch) (katsubushi_lease_etcd_info)) > 1` for a minute: daemons of one pool talk to two stores. The epoch changes when a restore or a wipe was noticed",
	"lease_etcd_floor_wait_seconds":           "more than 0, unless after a restore: grants may have been forgotten, and newcomers get ids when it is 0",
	"lease_etcd_watch_left_seconds":           "",
	"lease_etcd_clock_ahead_seconds":          "more than half of `-max-skew` either way: set this clock right, or theirs",
	"lease_etcd_clocks":                       "",
	"lease_etcd_member_info":                  "`cluster` differs within a job: two clusters",
	"lease_etcd_lease_ttl_seconds":            "",
	"lease_etcd_revision":                     "falls: an older state was restored; see [ETCD.md](ETCD.md)",
	"lease_etcd_term":                         "grows often: etcd elects leaders all the time",
	"lease_zookeeper_info":                    "`count(count by (epoch) (katsubushi_lease_zookeeper_info)) > 1` for a minute, as with etcd",
	"lease_zookeeper_floor_wait_seconds":      "as with etcd",
	"lease_zookeeper_watch_left_seconds":      "",
	"lease_zookeeper_clock_ahead_seconds":     "as with etcd",
	"lease_zookeeper_clocks":                  "",
	"lease_zookeeper_member_info":             "",
	"lease_zookeeper_servers":                 "",
	"lease_zookeeper_session_timeout_seconds": "",
	"lease_zookeeper_zxid":                    "falls: an older state was restored; see [ZOOKEEPER.md](ZOOKEEPER.md)",

	"generator_issued_total":      "",
	"generator_ready":             "0 for more than a minute: clients of this name get errors, although `katsubushi_ready` may be 1; `stats generators` says why",
	"generator_last":              "",
	"generator_at_hand":           "",
	"generator_left":              "",
	"generator_block":             "",
	"generator_time_left_seconds": "less than a month: the `max` of the sequence is near",
	"generator_waits_total":       "grows: its blocks come too slowly; the disk of the state directory stalls, or the counter store is slow",
	"generator_refusals_total":    "grows: clients got errors",

	"leader_groups":            "the sum over the job is not 16 for more than ten seconds: a group has no leader",
	"leader_until_seconds":     "below 2 while it leads: renewals fail",
	"leader_failures_total":    "grows: etcd does not answer in time",
	"leader_renewals_total":    "",
	"leader_terms_total":       "",
	"leader_lost_total":        "grows: another daemon took a group, because this one stood still or did not reach etcd",
	"leader_handed_over_total": "",
	"leader_term":              "",
	"leader_missing_seconds":   "grows: nobody issues the values of this group",
	"forward_requests_total":   "",
	"forward_failures_total":   "grows beyond a fail-over: clients get errors, whose text says why",
	"forward_values_total":     "",

	"peers":                          "",
	"peers_unreadable":               "more than 0: another version, or another program, writes there",
	"peers_asked":                    "",
	"peers_answered":                 "less than were asked: this daemon cannot reach the others",
	"peers_clock_difference_seconds": "more than half a second either way",
	"peers_alarm":                    "1 for more than a minute: another daemon's clock, worker id, settings or address do not fit this one's; [DISCOVERY.md](DISCOVERY.md#the-check-of-the-peers) says what to do for each kind",
	"announcements_total":            "",
	"announcement_errors_total":      "grows: clients that find daemons in the store may not find this one",

	"login_comparisons_total":      "",
	"logins_waiting":               "grows: more logins than there is time to compare with hashes. Give programs tokens, or keep their connections open",
	"logins_busy_total":            "grows: as above, and logins were refused",
	"tls_certificate_left_seconds": "less than two weeks: renew the certificate, then SIGHUP. The log warns of it at a start and a reload only",
}
