package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
	"github.com/katsubushi/katsubushi/v3/internal/stores"
)

const generatorUsage = `-state-dir, -counters and -counters-password-file are the daemon's. Without them the daemon
that runs on this host is asked where it records; if there is none, root takes the directory of the systemd unit.
Daemons may run meanwhile. usage:
  katsubushi generator create LINE          record a sequence, such as 'orders sequence start=1'
  katsubushi generator list [-json]         what is recorded
  katsubushi generator show NAME [-json]
  katsubushi generator raise NAME AT_LEAST  no value below AT_LEAST is issued any more; it never goes down. This also takes over a
                                            record that was written on another machine, or was set back.
                                            One that is damaged is made anew: add -generator LINE, its definition
  katsubushi generator adopt [NAME]...      take over records that were written on another machine, which has stopped for good and
                                            from which they were copied after that; without a name, all of them
  katsubushi generator replicas K           in Redis: from now on K replicas must have a grant; daemons with another replicas=K in
                                            their URL are granted nothing
  katsubushi generator retire NAME -force   refuse it for ever`

// generatorVerbs has how many words follow each verb.
var generatorVerbs = map[string]struct{ least, most int }{
	"create": {1, 16}, "list": {0, 0}, "show": {1, 1}, "raise": {2, 2}, "adopt": {0, kinds.MaxNames}, "retire": {1, 1},
	"replicas": {1, 1},
}

func generatorVerbNames() []string {
	return []string{"create", "list", "show", "raise", "adopt", "replicas", "retire"}
}

const generatorTimeout = 10 * time.Second

// A generatorCommand is a call of `katsubushi generator`.
type generatorCommand struct {
	verb       string
	words      []string
	definition kinds.Definition // of create
	atLeast    uint64           // of raise
	replicas   int
	json       bool
	force      bool

	lines, file    string // definitions of names
	counters       stores.Counters
	store          stores.CounterStore
	stdout, stderr io.Writer
}

// generators looks at and changes the records of sequences.
func generators(args []string, env variables, stdout, stderr io.Writer) int {
	c := &generatorCommand{stdout: stdout, stderr: stderr}
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") { // flags may stand behind the words
		c.words, args = append(c.words, args[0]), args[1:]
	}
	p, fs, err := parse(settings(), args, env, func(fs *flag.FlagSet) {
		fs.BoolVar(&c.json, "json", false, "")
		fs.BoolVar(&c.force, "force", false, "")
	})
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(stdout, generatorUsage)
		flagsOf(fs, stdout, topicNames)
		return exitOK
	}
	if c.words = append(c.words, p.args...); len(c.words) > 0 {
		c.verb, c.words = c.words[0], c.words[1:]
	}
	p.locateHere(!c.reads())
	p.warn(stderr)
	p.problems = append(p.problems, c.check(p.Counters)...)
	p.Counters.AnyDisk, p.Counters.Operator = p.AnyDisk, true
	if p.report("Counters.", p.Counters.Validate(), p.Counters.ReadSecrets()); p.Counters.Nowhere() {
		p.problems = append(p.problems, stores.ErrNoPlace)
	}
	if err := errors.Join(p.problems...); err != nil {
		fmt.Fprintf(stderr, "%v\n%s\n", err, generatorUsage)
		return exitUsage
	}
	if c.store, err = p.Counters.Open(); err != nil {
		fmt.Fprintln(stderr, err)
		return exitFailure
	}
	defer c.store.Close()
	c.counters, c.lines, c.file = p.Counters, p.Generators, p.GeneratorsFile
	return c.run()
}

// reads reports whether the command changes nothing.
func (c *generatorCommand) reads() bool { return c.verb == "list" || c.verb == "show" }

// check returns everything that is wrong with the words.
func (c *generatorCommand) check(counters stores.Counters) (problems []error) {
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	verbs := spoken(generatorVerbNames()) + " are there"
	n, ok := generatorVerbs[c.verb]
	switch {
	case c.verb == "":
		problem("generator: the verb comes first: %s", verbs)
	case !ok:
		problem("generator %s: %s", c.verb, verbs)
	case len(c.words) < n.least || len(c.words) > n.most:
		problem("generator %s: %d words follow it, not %d", c.verb, n.least, len(c.words))
	case c.verb == "create":
		var err error
		if c.definition, err = counters.ParseSequence(strings.Join(c.words, " ")); err != nil {
			problem("%w", err)
		}
	default:
		names := c.words
		if c.verb == "replicas" {
			names = nil
			var err error
			if c.replicas, err = strconv.Atoi(c.words[0]); err != nil {
				problem("K=%.20s: a number of replicas", c.words[0])
			}
		}
		if c.verb == "raise" {
			var err error
			if c.atLeast, err = stores.ParseFloor(c.words[1]); err != nil {
				problem("%w", err)
			}
			names = names[:1]
		}
		for _, name := range names {
			if err := kinds.CheckName(name); err != nil {
				problem("%w", err)
			}
		}
	}
	if err := counters.CheckRetire(); c.verb == "retire" && err != nil {
		problem("generator retire: %w", err)
	}
	if c.verb == "adopt" && !counters.Files() {
		problem("%w", stores.ErrNotFiles)
	}
	if c.json && !c.reads() {
		problem("-json: only list and show have it")
	}
	if c.force && c.verb != "retire" {
		problem("-force: only retire has it")
	}
	return problems
}

func (c *generatorCommand) run() int {
	ctx, cancel := context.WithTimeout(context.Background(), generatorTimeout)
	defer cancel()
	switch c.verb {
	case "create":
		return c.create(ctx)
	case "raise":
		return c.raise(ctx)
	case "adopt":
		return c.adopt(ctx)
	case "retire":
		return c.retire(ctx)
	case "replicas":
		return c.setReplicas(ctx)
	case "show":
		r, err := c.store.Show(ctx, c.words[0])
		if err == nil || errors.Is(err, counter.ErrForeign) && r.Name != "" {
			return c.print([]counter.Record{r}, err)
		}
		return c.fail(err)
	default:
		list, err := c.store.List(ctx)
		return c.print(list, errors.Join(err, stores.Faults(list)))
	}
}

func (c *generatorCommand) fail(err error) int {
	fmt.Fprintln(c.stderr, err)
	return exitFailure
}

// leaders returns who leads, if one of the sequences has a leader; nil = none has.
func (c *generatorCommand) leaders(list []counter.Record) (*leader.State, error) {
	e, ok := c.store.(stores.Elector)
	if !ok || !slices.ContainsFunc(list, func(r counter.Record) bool { return r.Strict }) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), generatorTimeout)
	defer cancel()
	now, err := stores.Leaders(ctx, e)
	if err != nil {
		return nil, err
	}
	return &now, nil
}

func (c *generatorCommand) create(ctx context.Context) int {
	r, err := stores.Create(ctx, c.store, c.definition)
	var different *stores.DifferentError
	switch {
	case errors.As(err, &different):
		fmt.Fprintln(c.stderr, err)
		return exitUsage
	case err != nil:
		return c.fail(err)
	}
	c.hedge(ctx)
	recorded(c.stderr, c.counters.Where())
	return c.print([]counter.Record{r}, nil)
}

// hedge says what may undo a change.
func (c *generatorCommand) hedge(ctx context.Context) {
	if text := stores.NotPromised(ctx, c.store); text != "" {
		fmt.Fprintln(c.stderr, "not promised: "+text)
	}
}

func (c *generatorCommand) raise(ctx context.Context) int {
	declared := func() kinds.Definition { return c.declared(c.words[0]) }
	r, err := stores.Raise(ctx, c.store, c.words[0], c.atLeast, declared)
	if err != nil {
		return c.fail(err)
	}
	late := stores.Confirm(ctx, c.store)
	fmt.Fprintf(c.stderr, "sequence %s: no value below %d %s\n", r.Name, r.Floor, c.counters.AfterRaise(late))
	c.name(late)
	c.hedge(ctx)
	recorded(c.stderr, c.counters.Where())
	return c.print([]counter.Record{r}, nil)
}

// name says which daemons have not confirmed a change.
func (c *generatorCommand) name(late []string) {
	for _, line := range late {
		fmt.Fprintln(c.stderr, line)
	}
}

// declared returns what the settings say of a name; without a Kind it is nothing.
func (c *generatorCommand) declared(name string) kinds.Definition {
	var list kinds.List
	_ = list.Add(c.lines)
	if text, err := kinds.ReadFile(c.file); err == nil {
		_ = list.AddFile(text)
	}
	for _, d := range list.All() {
		if d.Name == name {
			return d
		}
	}
	return kinds.Definition{}
}

// setReplicas changes how many replicas must have a grant.
func (c *generatorCommand) setReplicas(ctx context.Context) int {
	store, ok := c.store.(interface {
		SetReplicas(ctx context.Context, n int) (before int, err error)
	})
	if !ok {
		fmt.Fprintln(c.stderr, "generator replicas: for Redis only")
		return exitUsage
	}
	before, err := store.SetReplicas(ctx, c.replicas)
	if err != nil {
		return c.fail(err)
	}
	fmt.Fprintf(c.stdout, "replicas=%d, before %d: daemons with another number in their URL are granted nothing. "+
		"Restart all daemons with replicas=%d in theirs\n", c.replicas, before, c.replicas)
	c.hedge(ctx)
	recorded(c.stderr, c.counters.Where())
	return exitOK
}

// adopt raises what is another machine's to where it is.
func (c *generatorCommand) adopt(ctx context.Context) int {
	names := c.words
	if len(names) == 0 {
		list, _ := c.store.List(ctx)
		for _, r := range list {
			if r.Readable() { // else only raise helps
				names = append(names, r.Name)
			}
		}
	}
	var adopted []counter.Record
	var errs []error
	for _, name := range names {
		r, err := stores.Adopt(ctx, c.store, name)
		if errors.As(err, new(stores.Conflict)) && len(c.words) == 0 {
			continue
		}
		if err == nil {
			adopted = append(adopted, r)
		}
		errs = append(errs, err)
	}
	if len(adopted) > 0 {
		c.name(stores.Confirm(ctx, c.store))
		recorded(c.stderr, c.counters.Where())
	}
	if err := errors.Join(errs...); err != nil || len(adopted) > 0 {
		return c.print(adopted, err)
	}
	return c.fail(errors.New("no record was written on another machine"))
}

func (c *generatorCommand) retire(ctx context.Context) int {
	r, err := stores.Retire(ctx, c.store, c.words[0], c.force, "-force")
	if err != nil {
		return c.fail(err)
	}
	c.name(stores.Confirm(ctx, c.store))
	c.hedge(ctx)
	recorded(c.stderr, c.counters.Where())
	return c.print([]counter.Record{r}, nil)
}

// print answers exitFailure if there is an error, which it prints too.
func (c *generatorCommand) print(list []counter.Record, err error) int {
	table := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	leaders, notRead := c.leaders(list)
	if !c.json && len(list) > 0 {
		fmt.Fprint(table, "NAME\tNEXT BLOCK\tFLOOR\tLEFT\tSTATE\t")
		if leaders != nil {
			fmt.Fprint(table, "GROUP\tLEADER\t")
		}
		fmt.Fprintln(table, "DEFINITION")
	}
	for _, r := range list {
		s := stores.Show(r)
		if leaders != nil && r.Strict {
			s.Led = stores.ShowLeader(leaders, r.Name)
		}
		if c.json {
			json.NewEncoder(c.stdout).Encode(s)
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t", s.Name, s.Next, s.Floor, s.Left, s.State)
		switch {
		case s.Led != nil:
			fmt.Fprintf(table, "%d\t%s\t", s.Led.Group, cmp.Or(s.Led.Leader, "none"))
		case leaders != nil:
			fmt.Fprint(table, "\t\t")
		}
		fmt.Fprintln(table, s.Definition)
	}
	err = errors.Join(err, notRead)
	table.Flush()
	switch {
	case err != nil:
		return c.fail(err)
	case len(list) == 0:
		return c.fail(errors.New("no sequence is recorded there"))
	}
	return exitOK
}
