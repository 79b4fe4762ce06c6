package main

import (
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

// A topic is a group of flags in -help and in the manual page. A test asks for each flag in one topic.
type topic struct {
	title string
	names []string
}

// The topics that subcommands have to do with.
const (
	topicDaemon  = "The daemon"
	topicNames   = "Names for other kinds of id, and sequences"
	topicStore   = "Worker ids from a store"
	topicUsers   = "Encryption and users"
	topicLayout  = "What the bits of an id say"
	topicRecords = "Records and claims"
)

var topics = []topic{
	{topicDaemon, []string{"worker-id", "store", "redis", "state-dir", "bind", "port", "http-port", "config", "version"}},
	{topicNames, []string{"generator", "generators", "unknown-keys", "counters",
		"counters-password-file", "max-wait", "advertise", "forward-user", "forward-password-file", "forward-ca"}},
	{topicStore, []string{"min-worker-id", "max-worker-id", "lanes", "lease", "heartbeat", "max-skew", "lease-auto-init",
		"announce", "peer-check", "store-password-file", "store-ca", "store-cert", "store-key", "redis-password-file",
		"redis-replicas", "redis-allow-eviction",
		"hold-raus"}},
	{"Ports", []string{"sock", "sock-mode", "redis-port", "udp-port", "grpc-port", "http-bind", "admin-port", "admin-bind",
		"engine", "loops"}},
	{topicUsers, []string{"tls-cert", "tls-key", "tls-client-ca", "auth-file", "users"}},
	{"Limits, and how it stops",
		[]string{"max-connections", "max-buffer-memory", "idle-timeout", "shutdown-delay", "drain-timeout"}},
	{topicLayout, []string{"layout", "epoch", "time-unit", "worker-bits", "sequence-bits", "datacenter-id",
		"sequence-start", "max-run-ahead"}},
	{topicRecords, []string{"state-any-disk", "claim"}},
	{"Logs and debugging", []string{"log-level", "log-format", "debug-port", "enable-pprof", "enable-stats"}},
}

// byTopic returns the flags of a set, as flag.PrintDefaults shows them, for each topic that has some.
func byTopic(fs *flag.FlagSet) (titles []string, sets []*flag.FlagSet) {
	rest := flag.NewFlagSet("", flag.ContinueOnError)
	fs.VisitAll(func(f *flag.Flag) {
		if !slices.ContainsFunc(topics, func(t topic) bool { return slices.Contains(t.names, f.Name) }) {
			describe(rest, f)
		}
	})
	for _, t := range topics {
		set := flag.NewFlagSet("", flag.ContinueOnError)
		for _, name := range t.names {
			if f := fs.Lookup(name); f != nil {
				describe(set, f)
			}
		}
		titles, sets = append(titles, t.title), append(sets, set)
	}
	return append(titles, "Other"), append(sets, rest)
}

// flagsOfTopic returns the names of a topic's flags.
func flagsOfTopic(title string) []string {
	return topics[slices.IndexFunc(topics, func(t topic) bool { return t.title == title })].names
}

func describe(fs *flag.FlagSet, f *flag.Flag) {
	fs.Var(f.Value, f.Name, f.Usage)
	fs.Lookup(f.Name).DefValue = f.DefValue
}

// empty reports whether a set has no flags.
func empty(fs *flag.FlagSet) bool {
	n := 0
	fs.VisitAll(func(*flag.Flag) { n++ })
	return n == 0
}

func usage(fs *flag.FlagSet, w io.Writer) {
	fmt.Fprint(w, "katsubushi hands out unique ids to any memcached or Redis client.\n\n")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "  katsubushi -worker-id N [flags]\tserve\n")
	for _, c := range commands() {
		text := c.summary
		if len(c.verbs) > 0 {
			text += ": " + strings.Join(names(c.verbs), " ")
		}
		fmt.Fprintf(table, "  katsubushi %s\t%s\n", strings.TrimSpace(c.name+" "+c.synopsis), text)
	}
	table.Flush()
	fmt.Fprint(w, `
Every flag can be given by the environment, under the names in brackets; those without KATSUBUSHI_ may be in lower case; or by a line of
-config FILE. A flag beats the environment, the environment beats the file, and what is empty is not set.
`)
	flagsOf(fs, w)
}

// flagsOf prints the flags of a set by topic; of these topics only, if any are given.
func flagsOf(fs *flag.FlagSet, w io.Writer, only ...string) {
	titles, sets := byTopic(fs)
	for i, set := range sets {
		if empty(set) || len(only) > 0 && !slices.Contains(only, titles[i]) {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n\n", titles[i])
		set.SetOutput(w)
		set.PrintDefaults()
	}
}

// help prints the help of the subcommand, or of its verb if verbs have help of their own.
func (c *call) help() {
	s, w := c.command, c.stdout
	switch {
	case s.intro != "" && c.verb.settings != nil:
		fmt.Fprintf(w, "usage: katsubushi %s %s [flags]\n%s\nFlags:\n\n", s.name, s.synopsis, s.about(c.verb))
		c.flagsOfVerb()
	case s.intro != "":
		io.WriteString(w, s.usage())
		if len(s.topics) > 0 {
			flagsOf(c.flags, w, s.topics...)
		}
		if s.lists {
			c.flags.SetOutput(w)
			c.flags.PrintDefaults()
		}
	case s.settings != nil:
		usage(c.flags, w)
	default:
		fmt.Fprintf(w, "usage: katsubushi %s\n%s\n", strings.TrimSpace(s.name+" "+s.synopsis), s.summary)
	}
}

// usage returns what the help of a subcommand says before its flags.
func (s *subcommand) usage() string {
	text := s.intro
	for _, v := range s.verbs {
		text += s.about(v)
	}
	return text + s.outro
}

// about returns the lines about a verb, in two columns.
func (s *subcommand) about(v verb) string {
	left, right := strings.Split(s.lead+v.synopsis, "\n"), strings.Split(v.text, "\n")
	var b strings.Builder
	for len(left)+len(right) > 0 {
		line := fmt.Sprintf("  %-*s", s.column-2, strings.Join(left[:min(len(left), 1)], ""))
		line += strings.Join(right[:min(len(right), 1)], "")
		b.WriteString(strings.TrimRight(line, " ") + "\n")
		left, right = left[min(len(left), 1):], right[min(len(right), 1):]
	}
	return b.String()
}

// flagsOfVerb prints the flags that one verb reads.
func (c *call) flagsOfVerb() {
	own, daemons := flag.NewFlagSet("", flag.ContinueOnError), flag.NewFlagSet("", flag.ContinueOnError)
	c.flags.VisitAll(func(f *flag.Flag) {
		i := slices.IndexFunc(c.command.own, func(o ownFlag) bool { return o.name == f.Name })
		switch {
		case i >= 0 && c.command.own[i].of(c.verb):
			describe(own, f)
		case i < 0 && slices.Contains(c.verb.settings, f.Name):
			describe(daemons, f)
		}
	})
	own.SetOutput(c.stdout)
	own.PrintDefaults()
	flagsOf(daemons, c.stdout)
}

// help is the subcommand.
func help(c *call) int {
	if c.list {
		for _, s := range commands() {
			fmt.Fprintln(c.stdout, s.name)
			for _, v := range s.verbs {
				fmt.Fprintln(c.stdout, s.name, v.called())
			}
		}
		return exitOK
	}
	of := theDaemon()
	if len(c.words) > 0 {
		if of = subcommandNamed(c.words[0]); of == nil {
			c.problem("help %s: %s are there", c.words[0], spoken(names(commands())))
		}
	}
	if c.refused() {
		return exitUsage
	}
	return of.start(append(c.words[min(len(c.words), 1):], "-help"), c.env, c.stdin, c.stdout, c.stderr)
}

// printVersion is the subcommand, and what -version does.
func printVersion(c *call) int {
	if c.refused() {
		return exitUsage
	}
	info, _ := debug.ReadBuildInfo()
	io.WriteString(c.stdout, describeVersion(info, commit))
	return exitOK
}
