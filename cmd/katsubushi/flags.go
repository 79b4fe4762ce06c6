package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/daemon"
	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/leaserun"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/server/engines"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/internal/windows"
)

// options is what flags, environment and file come to.
type options struct {
	daemon.Config
	layout    layoutChoice
	notes     []string // what is to be logged about the settings, though it is no problem
	logLevel  slog.Level
	logFormat string
	run       leaserun.Config // of `katsubushi run`
}

// A setting is one flag and its environment variable. This is the one place where their names,
// defaults and texts stand.
type setting struct {
	name  string
	topic string
	def   string
	help  string
	field string // of daemon.Config, so that Validate's findings are told in the words that the user used
	bool  bool
	list  bool // may be given several times; in the environment with semicolons or line feeds between
	once  bool // a second flag with another value is refused: people mean one more value, and it would replace the first
	// its name in the environment may lack KATSUBUSHI_, in either case: all that kayac/go-katsubushi
	// has, and BIND, which stands beside PORT
	bare bool
	set  value
}

func settings(o *options) []setting {
	list := slices.Concat(workerSettings(o), placeSettings(o), clientSettings(o), nameSettings(o), portSettings(o))
	list = append(list, configSetting())
	return slices.Concat(list, redisSettings(o)[:1], storeSettings(o), redisSettings(o)[1:], layoutSettings(o))
}

// workerSettings returns those settings that are about worker ids and the ids made with them.
func workerSettings(o *options) []setting {
	return []setting{
		{name: "worker-id", topic: topicDaemon, bare: true, once: true, field: "WorkerIDs", set: value{o.setWorkerIDs, nil},
			help: "worker `id`, different for every daemon of the fleet; several lanes as 1-4 or 1,5,9; ordinal, or " +
				"ordinal+OFFSET, takes the digits at the end of the host name, for StatefulSets with a volume for -state-dir"},
		{name: "state-dir", topic: topicDaemon, field: "StateDir", set: text(&o.StateDir),
			help: "`directory`, on a local disk, where the daemon records windows and sequences; default $STATE_DIRECTORY, " +
				"which systemd sets, else $XDG_STATE_HOME/katsubushi or ~/.local/state/katsubushi; none = nowhere"},
		{name: "state-any-disk", topic: topicRecords, bool: true, def: "false", field: "AnyDisk", set: boolean(&o.AnyDisk),
			help: "accept a state directory on a file system that may lose synced data"},
		{name: "claim", topic: topicRecords, def: "on", field: "Claim", set: either(&o.Claim, "on", "off"),
			help: "on: refuse to start if another daemon on this host has the worker id; off: do not check"},
		{name: "max-run-ahead", topic: topicLayout, def: "1s", field: "MaxRunAhead", set: duration(&o.MaxRunAhead),
			help: "how far ahead of the clock ids may be issued"},

		{name: "datacenter-id", topic: topicLayout, set: value{o.setDatacenter, nil},
			help: "datacenter `id` of the twitter layout, 0 to 31; worker ids are then 0 to 31 too"},
		{name: "sequence-start", topic: topicLayout, def: "zero", set: either(&o.RandomStart, "random", "zero"),
			help: "where a tick's sequence starts when ids are rare: zero, or random, so that ids spread evenly over shards"},
	}
}

// placeSettings returns those settings that say where the daemon listens, and what other daemons know of it.
func placeSettings(o *options) []setting {
	return []setting{
		{name: "bind", topic: topicDaemon, bare: true, field: "Bind", set: text(&o.Bind),
			help: "`address` to listen on; default all, IPv6 and IPv4"},
		{name: "sock", topic: topicPorts, bare: true, field: "Sock", set: text(&o.Sock),
			help: "`path` of a unix socket to listen on instead of TCP"},
		{name: "sock-mode", topic: topicPorts, def: "0700", field: "SockMode", set: value{o.setSockMode, nil},
			help: "octal permissions of the unix socket"},

		{name: "udp-port", topic: topicPorts, def: "0", field: "UDPPort", set: number(&o.UDPPort),
			help: "`port` of memcached's UDP protocol, for gets that fit into one datagram; 0 = off"},
		{name: "advertise", topic: topicNames, field: "Advertise", set: text(&o.Advertise),
			help: "`host:port` at which clients reach this daemon: config get cluster, Redis Cluster's commands, -announce " +
				"and the other daemons of -counters etcd:// get it; default -bind, or this host's address, and -port"},
		{name: "announce", topic: topicStore, field: "Announce", set: text(&o.Announce, windows.AnnounceWords...),
			help: "on: clients and the other daemons find this one in -store; off; default on there"},
		{name: "peer-check", topic: topicStore, field: "PeerCheck", set: text(&o.PeerCheck, windows.PeerCheckWords...),
			help: "what to do if this clock is more than 10s from the median of the other daemons in -store: refuse to " +
				"start; warn; off: do not ask them; default refuse with ZooKeeper and etcd, off with Redis"},
		{name: "forward-user", topic: topicNames, field: "ForwardUser", set: text(&o.ForwardUser),
			help: "`user` with which this daemon logs in to the others of the fleet: for the sequences that they lead, with " +
				"-counters etcd://, for -peer-check, for katsubushi fleet and for the status page"},
		{name: "forward-password-file", topic: topicNames, field: "ForwardPasswordFile", set: text(&o.ForwardPasswordFile),
			help: "`file` with that user's password: readable by its owner only, and read again for every connection"},
		{name: "forward-ca", topic: topicNames, field: "ForwardCA", set: text(&o.ForwardCA),
			help: "PEM `file` of the authorities of the other daemons' certificates, which this one asks over TLS if it has " +
				"-tls-cert; default the system's"},
	}
}

// portSettings returns the numbers of the TCP ports. A port's flag also names its sockets if a supervisor opens them.
func portSettings(o *options) []setting {
	return []setting{
		{name: "port", topic: topicDaemon, bare: true, def: "11212", field: "port", set: number(&o.Port),
			help: "TCP `port` of the memcached protocols, and of Redis's; 0 = any free one"},
		{name: "redis-port", topic: topicPorts, def: "0", field: "redis-port", set: number(&o.RedisPort),
			help: "TCP `port` of the Redis protocol alone, with inline commands; 0 = off"},
		{name: "http-port", topic: topicDaemon, bare: true, def: "8081", field: "http-port", set: number(&o.HTTPPort),
			help: "`port` of the status page, /id /ids /stats /healthz /readyz /metrics; 0 = off; by default on " +
				sockets.Loopback + " only, and off if the port is taken or -http-bind is given"},
		{name: "grpc-port", topic: topicPorts, bare: true, def: "0", field: "grpc-port", set: number(&o.GRPCPort),
			help: "`port` of gRPC: the services of kayac/go-katsubushi, health, reflection; 0 = off"},
		{name: "admin-port", topic: topicPorts, def: "0", field: "admin-port", set: number(&o.AdminPort),
			help: "`port` of /generators /leaders /users, over HTTP, for users with the admin right; 0 = off"},
		{name: "debug-port", topic: topicLogs, bare: true, def: "8080", field: "debug-port", set: number(&o.DebugPort),
			help: "`port`, on localhost, of /debug/pprof/, /debug/stats and /debug/events: open if this flag or one of the " +
				"next two is given; these two limit it to what they enable"},
	}
}

// clientSettings returns those settings that say who may connect, and how connections are served.
func clientSettings(o *options) []setting {
	cpus := strconv.Itoa(runtime.GOMAXPROCS(0))
	return []setting{
		{name: "tls-cert", topic: topicUsers, field: "TLSCert", set: text(&o.TLSCert),
			help: "PEM `file` of the certificate chain: the TCP port then speaks TLS and nothing else; reloaded on SIGHUP"},
		{name: "tls-key", topic: topicUsers, field: "TLSKey", set: text(&o.TLSKey),
			help: "PEM `file` of the certificate's key"},
		{name: "tls-client-ca", topic: topicUsers, field: "TLSClientCA", set: text(&o.TLSClientCA),
			help: "PEM `file` of the authorities that must have signed a client's certificate"},
		{name: "auth-file", topic: topicUsers, field: "AuthFile", set: text(&o.AuthFile),
			help: "`file` of users, readable by its owner only: clients must log in (SASL PLAIN, memcached's text login, " +
				"Redis's AUTH, or over HTTP); lines user:password, or those that katsubushi user writes"},
		{name: "auth-store", topic: topicUsers, field: "Users", set: text(&o.Users, usersInCounters),
			help: "counters: users are kept in the etcd of -counters, for all daemons there"},
		{name: "users", topic: topicUsers, field: "Users", set: text(&o.Users, usersInCounters),
			help: "the older name of -auth-store"},

		{name: "engine", topic: topicPorts, def: "auto", field: "Engine",
			set:  text(&o.Engine, engines.Names()...),
			help: "how connections are served: auto, uring, epoll (both Linux only) or net"},
		{name: "loops", topic: topicPorts, def: cpus, field: "Loops", set: number(&o.Loops),
			help: "event loops, each with a listener of its own; default one for each CPU allowed"},
		{name: "spin", topic: topicPorts, def: "auto", field: "Spin", set: value{o.setSpin, []string{"auto", "off"}},
			help: "how long a loop that has just answered polls for the next input before it sleeps: auto, while that " +
				"saves CPU; off; or a duration of at most 1ms"},
		{name: "max-connections", topic: topicLimits, field: "MaxConnections",
			def: strconv.Itoa(max(openFiles()-otherFiles, fewConnections)),
			set: number(&o.MaxConnections),
			help: "connections over this limit get an error and are closed; default the limit of open files − 64, " +
				"less what the HTTP port and sequences in -state-dir may use: " +
				"a file for each, up to a quarter of that limit, and one for each with order=strict"},
		{name: "max-buffer-memory", topic: topicLimits, def: sizeText(front.DefaultBufferMemory()), field: "MaxBufferMemory",
			set: size(&o.MaxBufferMemory),
			help: "`bytes`, such as 64MiB or 256m, of unfinished input and unsent output of all connections together: above " +
				"this the daemon closes the one that holds most; default an eighth of the control group's memory limit, " +
				"or 256MiB; 0 = no limit"},
		{name: "idle-timeout", topic: topicLimits, bare: true, def: "600s", field: "IdleTimeout",
			set:  duration(&o.IdleTimeout),
			help: "close connections that are silent this long; 0 = never"},
		{name: "shutdown-delay", topic: topicLimits, def: "0s", field: "ShutdownDelay", set: duration(&o.ShutdownDelay),
			help: "how long to keep serving, not ready, after the signal to stop"},
		{name: "drain-timeout", topic: topicLimits, def: "5s", field: "DrainTimeout", set: duration(&o.DrainTimeout),
			help: "how long clients may take to receive their last answers"},

		{name: "http-bind", topic: topicPorts, field: "HTTPBind", set: text(&o.HTTPBind),
			help: "`address` of the HTTP port; default that of -bind"},
		{name: "http-host", topic: topicPorts, field: "HTTPHost", set: text(&o.HTTPHost),
			help: "`names`, separated by commas, under which the HTTP, admin and debug ports answer on loopback, besides " +
				"IP addresses, localhost and this host's name"},
		{name: "admin-bind", topic: topicPorts, field: "AdminBind", set: text(&o.AdminBind),
			help: "`address` of the admin port; default loopback"},
		{name: "enable-pprof", topic: topicLogs, bare: true, bool: true, def: "false", field: "EnablePprof",
			set:  boolean(&o.EnablePprof),
			help: "/debug/pprof/ and /debug/events on the debug port"},
		{name: "enable-stats", topic: topicLogs, bare: true, bool: true, def: "false", field: "EnableStats",
			set:  boolean(&o.EnableStats),
			help: "/debug/stats and /debug/events on the debug port"},
	}
}

// nameSettings returns those settings that are about declared names, and the log.
func nameSettings(o *options) []setting {
	return []setting{
		{name: "name", topic: topicNames, list: true, field: "Definitions", set: text(&o.Definitions),
			help: "`line` such as \"orders sequence start=1\" or \"sessions uuid7\": which kind of id a key stands for; may " +
				"be given several times, or separated by semicolons in the environment"},
		{name: "names", topic: topicNames, field: "DefinitionsFile", set: text(&o.DefinitionsFile),
			help: "`file` of such lines, # begins a comment; the daemon serves names added to it after SIGHUP"},
		{name: "generator", topic: topicNames, list: true, field: "Definitions", set: text(&o.Definitions),
			help: "the older name of -name: a `line`"},
		{name: "generators", topic: topicNames, field: "DefinitionsFile", set: text(&o.DefinitionsFile),
			help: "the older name of -names: a `file`"},
		{name: "counters", topic: topicNames, def: "file", field: "Counters.URL", set: text(&o.Counters.URL),
			help: "where sequences are recorded: file, a directory in -state-dir; file:///DIRECTORY; a Redis, the `URL`s of " +
				"-redis with ?ns=NAME&replicas=K; etcd://[USER@]HOST:PORT,...[/PREFIX][?ns=NAME], etcds:// with TLS; or " +
				"postgres:// or mysql://USER@HOST:PORT/DATABASE[?table=NAME], with ?layout=leaf for Leaf's table"},
		{name: "counters-password-file", topic: topicNames, field: "Counters.PasswordFile",
			set:  text(&o.Counters.PasswordFile),
			help: "`file` with the password of the user in -counters: readable by its owner only"},
		{name: "sequence-wait", topic: topicNames, def: "1s", field: "MaxWait", set: duration(&o.MaxWait),
			help: "how long a client waits for a value of a sequence whose record cannot be written"},
		{name: "max-wait", topic: topicNames, field: "MaxWait", set: duration(&o.MaxWait),
			help: "the older name of -sequence-wait"},
		{name: "unknown-keys", topic: topicNames, def: "issue", field: "RefuseUnknown",
			set: either(&o.RefuseUnknown, "refuse", "issue"),
			help: "issue: a key that no -name declares gets an id of -layout; refuse: it gets an error, unless it is " +
				"id or a number"},

		{name: "log-level", topic: topicLogs, bare: true, def: "info",
			set:  value{o.setLogLevel, []string{"debug", "info", "warn", "error", "fatal", "panic"}},
			help: "debug, info, warn, error, fatal or panic"},
		{name: "log-format", topic: topicLogs, def: "text", set: oneOf(&o.logFormat, "text", "json"),
			help: "text or json"},
	}
}

// parsed is a command line: the options, what is left after the flags, and what was wrong.
type parsed struct {
	options
	args []string
	// setting -> the flag or variable by which the user gave it; without an entry for the others
	given    map[string]string
	names    map[string]string // field of daemon.Config -> the flag or variable that set it
	problems []error
	passed   net.Addr        // of the memcached port's socket, if a supervisor opened it
	unknown  []string        // warnings: of environment variables that may be meant for settings and are none, for example
	failed   map[string]bool // fields that have a problem already
}

// parse reads the flags of a table of settings (nil: there are none) and, for those not given, the
// environment. Problems are collected, not returned one by one; extra adds a subcommand's own flags.
// The only error is flag.ErrHelp.
func parse(table func(*options) []setting, args []string, env variables, extra func(*flag.FlagSet)) (*parsed,
	*flag.FlagSet, error) {
	p := &parsed{given: map[string]string{}, names: map[string]string{}, failed: map[string]bool{}}
	var all []setting
	if table != nil {
		all = table(&p.options)
	}
	fs := flag.NewFlagSet("katsubushi", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	given := make([]raw, len(all))
	for i, s := range all {
		given[i] = raw{bool: s.bool, list: s.list, once: s.once, value: s.def, def: s.def}
		fs.Var(&given[i], s.name, s.usage())
	}
	if extra != nil {
		extra(fs)
	}
	var err error
	if p.args, p.problems, err = parseFlags(fs, args); err != nil || len(all) == 0 {
		return p, fs, err
	}
	file := p.readConfig(all, given, env)
	for _, byFlag := range []bool{false, true} { // flags last, since two settings may have one field
		for i := range all {
			if given[i].set == byFlag {
				p.take(&all[i], &given[i], env, file)
			}
		}
	}
	p.unknown = append(p.unknown, unknownVariables(env)...)
	p.combine()
	p.combineStateDir(env)
	return p, fs, nil
}

// readConfig reads the file that -config or the environment names, if any.
func (p *parsed) readConfig(all []setting, given []raw, env variables) map[string]fileValue {
	i := slices.IndexFunc(all, func(s setting) bool { return s.name == "config" })
	if i < 0 { // a subcommand with few settings
		return nil
	}
	path := given[i].value
	if !given[i].set {
		_, path, _ = all[i].environment(env)
	}
	if path == "" {
		return nil
	}
	values, problems := readConfig(path)
	p.problems = append(p.problems, problems...)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if v := values[name]; inlineComment.MatchString(v.value) {
			p.unknown = append(p.unknown, v.name+
				": the # behind its value is a part of the value: a comment stands on a line of its own")
		}
	}
	return values
}

// take sets what a flag says; if it was not given, the environment, the file or the default.
func (p *parsed) take(s *setting, flag *raw, env variables, file map[string]fileValue) {
	name, value := "-"+s.name, flag.value
	byUser := flag.set
	if !flag.set {
		n, v, err := s.environment(env)
		if err != nil {
			p.problems = append(p.problems, err)
		}
		if v != "" {
			name, value, byUser = n, v, true
		} else if f, ok := file[s.name]; ok {
			name, value, byUser = f.name, f.value, true
		}
	}
	if byUser {
		p.given[s.name] = name
	}
	if byUser || p.names[s.field] == "" {
		p.names[s.field] = name
	}
	if value == "" {
		return
	}
	if err := s.set.set(value); err != nil {
		p.problems = append(p.problems, fmt.Errorf("%s=%s: %w", name, value, err))
		p.failed[s.field] = true
	}
}

// parseFlags parses args up to the first that is no flag, and returns the rest. Behind a flag that
// there is not it goes on, so that whatever else is wrong is told as well; an argument there is
// taken for that flag's value. The error is flag.ErrHelp.
func parseFlags(fs *flag.FlagSet, args []string) (rest []string, problems []error, err error) {
	for {
		err := fs.Parse(args)
		rest = fs.Args()
		if err == nil || errors.Is(err, flag.ErrHelp) {
			return rest, problems, err
		}
		// Behind other flags one without a name comes twice.
		if n := len(problems); n == 0 || problems[n-1].Error() != err.Error() {
			problems = append(problems, err)
		}
		if len(rest) == len(args) { // it is not even the name of a flag
			rest = rest[1:]
		}
		if last := args[len(args)-len(rest)-1]; len(rest) > 0 && !strings.HasPrefix(rest[0], "-") &&
			!strings.Contains(strings.TrimLeft(last, "-="), "=") {
			rest = rest[1:]
		}
		args = rest
	}
}

// combine makes what several settings say together.
func (p *parsed) combine() {
	var err error
	if p.Layout, err = p.layout.build(); err != nil && !p.failed["Layout"] {
		p.problems = append(p.problems, fmt.Errorf("-layout, -worker-bits, -sequence-bits: %w", err))
		p.failed["Layout"] = true
	}
	if alone := p.given["enable-pprof"] == "" && p.given["enable-stats"] == ""; alone && p.given["debug-port"] != "" {
		p.EnablePprof, p.EnableStats = p.DebugPort != 0, p.DebugPort != 0
	}
	p.combinePage()
	p.limitConnections(0)
	p.refuseTwins()
	p.combineStore()
	if err := p.applyDatacenter(); err != nil {
		p.problems = append(p.problems, fmt.Errorf("%s: %w", p.given["datacenter-id"], err))
	}
}

// combinePage settles where the status page is if nobody has said it: on loopback, where no other port of the
// daemon's own is.
func (p *parsed) combinePage() {
	if p.given["http-port"] != "" {
		return
	}
	p.HTTPByDefault = true
	debug := p.DebugPort == p.HTTPPort && (p.EnablePprof || p.EnableStats)
	if p.given["http-bind"] != "" {
		p.notes = append(p.notes, p.given["http-bind"]+" without -http-port: there is no HTTP port")
		p.HTTPPort = 0
	} else if debug || slices.Contains([]int{p.Port, p.RedisPort, p.GRPCPort, p.AdminPort}, p.HTTPPort) {
		p.HTTPPort = 0
	}
	p.HTTPBind = cmp.Or(p.HTTPBind, sockets.Loopback)
}

// twins are pairs of settings that say the same. The second is the older name, or the one of Redis alone.
var twins = []struct{ one, other, say string }{
	{"store", "redis", "where worker ids are leased"},
	{"store", "server", "where worker ids are leased"}, // yaraus's name of it
	{"store-password-file", "redis-password-file", "where the password is"},
	{"name", "generator", "which names there are"},
	{"names", "generators", "which names there are"},
	{"sequence-wait", "max-wait", "how long clients wait"},
	{"auth-store", "users", "where users are kept"},
}

// refuseTwins refuses both of a pair.
func (p *parsed) refuseTwins() {
	for _, t := range twins {
		if a, b := p.given[t.one], p.given[t.other]; a != "" && b != "" {
			p.problems = append(p.problems, fmt.Errorf("%s and %s: both say %s: one of the two is allowed", a, b, t.say))
		}
	}
}

// What descriptors are for, beside connections: otherFiles for listeners, state files and the runtime.
// fewConnections is the least that is left for connections.
const (
	otherFiles     = 64
	fewConnections = 16
)

// limitConnections sets the limit of connections, unless the user did, so that descriptors are left for
// the services and for so many of sequences.
func (p *parsed) limitConnections(sequences int) {
	if p.given["max-connections"] == "" {
		n := max(openFiles()-otherFiles-sequences, fewConnections)
		p.MaxConnections = max(n-p.Services.Descriptors(n), fewConnections)
	}
}

// checkDescriptors returns an error if so many files are too few for the locks of sequences, beside the records
// that stay open.
func checkDescriptors(records, locks, files int) error {
	needed := records + locks + otherFiles + fewConnections
	if locks == 0 || needed <= files {
		return nil
	}
	return fmt.Errorf("%d sequences in files with order=strict hold a descriptor each, "+
		"and this process may have %d in all: raise that limit to %d or more "+
		"(ulimit -n, LimitNOFILE= of the unit), or record them elsewhere (-counters)",
		locks, files, needed)
}

// validate returns every problem of the single settings and of their combination, joined, each in
// the words that the user used.
func (p *parsed) validate() error {
	p.report("", p.Validate(), p.ReadSecrets())
	if len(p.problems) == 0 {
		records, locks := p.SequenceDescriptors(openFiles() - otherFiles - fewConnections)
		if err := checkDescriptors(records, locks, openFiles()); err != nil {
			p.problems = append(p.problems, err)
		}
		p.Counters.OpenRecords = records
		p.limitConnections(records + locks)
	}
	p.notePassword(p.Store.Flag(), p.Store.URL)
	p.notePassword("-counters", p.Counters.URL)
	return errors.Join(p.problems...)
}

// notePassword warns of a password in the URL of a flag, which whoever lists processes sees. The environment
// and a file are not shown to others.
func (p *parsed) notePassword(flag, url string) {
	if p.given[strings.TrimPrefix(flag, "-")] != flag {
		return
	}
	if u, err := endpoint.Split(url); err == nil && u.Password != "" {
		const text = "%s: others may see the password in the URL: %s-password-file FILE takes it from a file"
		p.notes = append(p.notes, fmt.Sprintf(text, flag, flag))
	}
}

// report adds what a part of the program says of its settings, in the user's words. prefix goes
// before the part's names of fields.
func (p *parsed) report(prefix string, found ...error) {
	for _, e := range problem.Of(errors.Join(found...)) {
		switch field := prefix + e.Field; {
		case p.failed[field]: // told when it was read
		case e.Field != "" && p.names[field] != "":
			p.problems = append(p.problems, fmt.Errorf("%s: %w", p.names[field], e.Err))
		default:
			p.problems = append(p.problems, e)
		}
	}
}
