package main

import (
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/workerid"
)

// A subcommand is what the first argument may name. The table is the one place that knows them all: dispatch, what is
// said of wrong words, help, the manual page and shell completion read it.
type subcommand struct {
	name     string
	synopsis string // what may follow the name
	summary  string
	verbs    []verb // one of them is the second word
	least    int    // words that follow, if there are no verbs
	most     int
	own      []ownFlag
	values   *ownValues               // of the own flags
	settings func(*options) []setting // that it reads, beside its own flags; nil = none
	topics   []string                 // of the settings that help lists
	others   []string                 // settings that matter as well; without any, and without topics, all do
	lists    bool                     // help lists all flags, in alphabetical order
	run      func(*call) int          // of a subcommand without verbs

	intro, outro string // of help, before and behind what it says of the verbs
	lead         string // before the synopsis of a verb
	column       int    // in which the texts of the verbs begin
}

// Numbers of words without an end. Behind those that are foreign, nothing is a flag of ours.
const (
	endless = 1 << 16
	foreign = endless + 1
)

// A verb is what the second argument may name.
type verb struct {
	synopsis    string // its name, and what may follow; more lines as they stand
	text        string
	least, most int      // words that follow
	reads       bool     // it changes nothing
	kinds       []string // what its second word may be
	settings    []string // that it reads, for its own help; of a subcommand that has such
	run         func(*call) int
}

func (v verb) called() string {
	name, _, _ := strings.Cut(v.synopsis, " ")
	return name
}

func (c subcommand) called() string { return c.name }

// theDaemon is what runs if no subcommand is named.
func theDaemon() *subcommand {
	c := *subcommandNamed("check-config")
	c.name, c.intro, c.run = "", "", serve
	return &c
}

// commands returns the subcommands, those that people need first at the beginning.
func commands() []subcommand {
	o := &ownValues{how: string(workerid.InitWait), replacement: "{}", timeout: upgradeTimeout}
	return o.into([]subcommand{
		{name: "check-config", synopsis: "[flags]", most: foreign, settings: settings,
			own: []ownFlag{{name: "version", value: &o.version,
				help: "print the version, the commit and its date, and the version of Go that it was built with, and exit"}},
			summary: "report everything that is wrong with the settings, and do not serve", intro: checkIntro, run: checkConfig},
		{name: "init", own: o.initAnswers.flags(), lists: true, intro: initIntro, run: initialize,
			summary: "ask five questions, and write the files that configure daemons"},
		{name: "inspect", synopsis: "[-json] ID...", least: 1, most: endless, settings: layoutSettings, lists: true,
			own:     []ownFlag{o.jsonFlag("print one JSON object for each id")},
			summary: "show the parts of ids", intro: "usage: katsubushi inspect [-json] [-layout NAME] ID...\n", run: inspect},
		{name: "healthcheck", synopsis: "[-ready]", settings: settings,
			own:     []ownFlag{{name: "ready", value: &o.ready}},
			summary: "ask the daemon on this host whether it is alive (or issues ids)",
			intro:   "usage: katsubushi healthcheck [-ready], and the flags or environment that the daemon was started with\n",
			run:     healthcheck},
		{name: "state", synopsis: "VERB", verbs: stateVerbs(), settings: settings,
			topics: []string{topicDaemon, topicRecords}, own: []ownFlag{o.jsonFlag(""), o.forceFlag("reset"),
				{name: "mark", value: &o.mark}},
			summary: "inspect and repair the files that record windows",
			intro:   stateIntro, lead: "katsubushi state ", column: 66},
		{name: "lease", synopsis: "VERB -store URL", verbs: leaseVerbs(), settings: settings,
			own: []ownFlag{o.jsonFlag("print JSON"),
				{name: "all", help: "also list the worker ids that no daemon has", verbs: []string{"list"},
					value: &o.all},
				{name: "how", help: "what is known of the `past` of the pool: wait, new, replace, repair or migrated",
					value: &o.how, verbs: []string{"init"}, words: hows}},
			summary: "inspect and repair a pool of worker ids in a store",
			intro:   "usage: katsubushi lease VERB -store URL [-json] [the daemons' flags]\n", column: 42,
			outro: "\n`katsubushi lease VERB -help` lists the flags of a verb.\n"},
		o.ofNames("name", "manage sequences"),
		o.ofNames("generator", "the older word for name"),
		{name: "user", synopsis: "VERB ...", verbs: userVerbs(), settings: settings, topics: []string{topicUsers},
			others: []string{"counters", "counters-password-file"},
			own: []ownFlag{o.jsonFlag("", "list"), o.forceFlag("revoke", "remove"),
				{name: "password-file", verbs: []string{"add", "password"},
					value: &o.passwordFile},
				{name: "generate", verbs: []string{"add", "password"},
					value: &o.generate}},
			summary: "manage users", intro: userIntro, outro: userOutro, lead: "katsubushi user ", column: 44},
		{name: "demote", synopsis: "all|GROUP|HOST:PORT", most: 1, settings: settings,
			others:  []string{"counters", "counters-password-file"},
			summary: "hand sequences in strict order over to another daemon", intro: demoteIntro, run: demote},
		{name: "fleet", synopsis: "[-pid N] [-json]", lists: true,
			own:     []ownFlag{o.pidFlag(), o.jsonFlag("print one JSON object, with an element of `daemons` for each")},
			summary: "list the daemons that announce themselves, with their statistics", intro: fleetIntro,
			run: fleetOf},
		{name: "upgrade", synopsis: "[-pid N] [-timeout " + brief(upgradeTimeout) + "]", lists: true,
			own: []ownFlag{
				o.pidFlag(),
				{name: "timeout", value: &o.timeout,
					help: "how long the new process may take to get ready, for example to wait for a worker id"}},
			summary: "replace a running daemon with the installed program, without interruption",
			intro:   upgradeIntro, run: upgradeDaemon},
		{name: "run", synopsis: "-store URL -- COMMAND", most: foreign, settings: runSettings, lists: true,
			own: []ownFlag{{name: "replacement", value: &o.replacement,
				help: "`text` in the arguments that stands for the worker id"}},
			summary: "lease a worker id for another program, and run it", intro: runIntro, run: runProgram},
		{name: "completion", synopsis: "bash|zsh|fish", verbs: shells(),
			summary: "print the completion script for a shell", lead: "katsubushi completion ", column: 30},
		{name: "man", summary: "print the manual page", run: manual},
		{name: "version", summary: "print what -version prints", run: printVersion},
		{name: "help", synopsis: "[VERB]...", most: 2, summary: "print this, or the help of a verb", run: help,
			own: []ownFlag{{name: "list", value: &o.list}}},
	})
}

// ofNames returns the subcommand about what is declared. It has two words.
func (o *ownValues) ofNames(word, summary string) subcommand {
	return subcommand{name: word, synopsis: "VERB ...", verbs: nameVerbs(), settings: settings,
		topics: []string{topicNames}, others: []string{"state-dir"},
		own:     []ownFlag{o.jsonFlag("", "list", "show"), o.forceFlag("raise", "retire")},
		summary: summary, intro: nameIntro, lead: "katsubushi " + word + " ", column: 44}
}

// into lets subcommands have these values of their own flags.
func (o *ownValues) into(all []subcommand) []subcommand {
	for i := range all {
		all[i].values = o
	}
	return all
}

// subcommandNamed returns a subcommand, or nil.
func subcommandNamed(name string) *subcommand {
	all := commands()
	if i := slices.IndexFunc(all, func(c subcommand) bool { return c.name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}
