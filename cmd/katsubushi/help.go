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

// The topics, which are groups of flags in -help, in the manual page and in docs/FLAGS.md.
const (
	topicDaemon  = "The daemon"
	topicNames   = "Names for other kinds of id, and sequences"
	topicStore   = "Worker ids from a store"
	topicPorts   = "Ports"
	topicUsers   = "Encryption and users"
	topicLimits  = "Limits and stopping"
	topicLayout  = "Layout of the ids"
	topicRecords = "Records and claims"
	topicLogs    = "Logs and debugging"
)

var topics = []string{topicDaemon, topicNames, topicStore, topicPorts, topicUsers, topicLimits, topicLayout,
	topicRecords, topicLogs}

// allFlags is the word behind -help that asks for more than the short help.
const allFlags = "all"

// byTopic returns the flags of a set, as flag.PrintDefaults shows them, for each topic. -version is with the daemon.
func byTopic(fs *flag.FlagSet) map[string]*flag.FlagSet {
	sets := map[string]*flag.FlagSet{}
	for _, t := range topics {
		sets[t] = flag.NewFlagSet("", flag.ContinueOnError)
	}
	for _, s := range append(settings(new(options)), setting{name: "version", topic: topicDaemon}) {
		if f := fs.Lookup(s.name); f != nil {
			describe(sets[s.topic], f)
		}
	}
	return sets
}

// flagsOfTopic returns the names of a topic's flags.
func flagsOfTopic(topic string) (names []string) {
	for _, s := range settings(new(options)) {
		if s.topic == topic {
			names = append(names, s.name)
		}
	}
	return names
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

// A task is something that people want, and the flags for it.
type task struct {
	title string
	flags [][2]string // each with its text
}

// tasks are the short help: what most people need. Names that other flags have taken over are not among them.
var tasks = []task{
	{"Worker ids, given by hand or leased from a store", [][2]string{
		{"worker-id", "different for every daemon: 7, 1-4 or ordinal"},
		{"state-dir", "a directory on a local disk, for the record"},
		{"store", "redis://, etcd:// or zookeeper:// to lease from"},
		{"store-password-file", "its password"},
	}},
	{"Where it listens", [][2]string{
		{"port", "of memcached's and Redis's protocols; 11212"},
		{"bind", "default all"},
		{"sock", "a unix socket instead"},
		{"http-port", "status page, /id, /readyz, /metrics; 8081"},
		{"grpc-port", "gRPC"},
	}},
	{"Names that stand for other kinds of id", [][2]string{
		{"name", `such as "orders sequence"; any number of them`},
		{"names", "such lines in a file"},
		{"counters", "sequences in etcd, Redis or SQL; default files"},
		{"counters-password-file", "its password"},
	}},
	{"Who may connect", [][2]string{
		{"tls-cert", "speak TLS with this certificate"},
		{"tls-key", "and its key"},
		{"auth-file", "users; clients must log in"},
	}},
	{"Other", [][2]string{
		{"layout", "meaning of the bits of an id, such as twitter"},
		{"log-level", "debug, info, warn or error"},
		{"config", "flags, one per line, without the dash"},
		{"version", "print the version"},
	}},
}

// shortUsage prints what most people need, on one screen.
func shortUsage(fs *flag.FlagSet, w io.Writer) {
	fmt.Fprint(w, "katsubushi hands out unique ids to any memcached or Redis client.\n\n"+
		"  katsubushi -worker-id 7       serve\n"+
		"  katsubushi help all           list all flags and verbs; help VERB for one\n")
	for _, t := range tasks {
		fmt.Fprintf(w, "\n%s:\n", t.title)
		for _, f := range t.flags {
			value, _ := flag.UnquoteUsage(fs.Lookup(f[0]))
			fmt.Fprintf(w, "  -%-28s %s\n", f[0]+" "+value, f[1])
		}
	}
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
You can also set every flag with the environment variables in brackets (in lower case too, if without KATSUBUSHI_), or with a line of
-config FILE. Flags override the environment, and the environment overrides the file. An empty value counts as not set.
`)
	flagsOf(fs, w)
}

// flagsOf prints the flags of a set by topic; of these topics only, if any are given.
func flagsOf(fs *flag.FlagSet, w io.Writer, only ...string) {
	sets := byTopic(fs)
	for _, topic := range topics {
		if empty(sets[topic]) || len(only) > 0 && !slices.Contains(only, topic) {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n\n", topic)
		sets[topic].SetOutput(w)
		sets[topic].PrintDefaults()
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
	case s.settings != nil && !slices.Equal(c.args, []string{allFlags}):
		shortUsage(c.flags, w)
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
	of, args := theDaemon(), append(c.words[min(len(c.words), 1):], "-help")
	if len(c.words) == 1 && c.words[0] == allFlags {
		args = []string{"-help", allFlags}
	} else if len(c.words) > 0 {
		if of = subcommandNamed(c.words[0]); of == nil {
			c.noVerb("help "+c.words[0], names(commands()))
		}
	}
	if c.refused() {
		return exitUsage
	}
	return of.start(args, c.env, c.stdin, c.stdout, c.stderr)
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
