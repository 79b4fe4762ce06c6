package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

const nameIntro = `-state-dir, -counters and -counters-password-file mean the same as for the daemon. Without them the command
asks the daemon that runs on this host where it records; if none runs, root gets the directory of the systemd unit.
Daemons may keep running. usage:
`

func nameVerbs() []verb {
	type c = *nameCommand
	return []verb{
		{synopsis: "create LINE", text: "record a sequence, such as 'orders sequence start=1'", least: 1, most: 16,
			kinds: []string{"sequence"}, run: inCounters(c.parseLine, c.create)},
		{synopsis: "list [-json]", text: "list the records", reads: true,
			run: inCounters(c.checkNames, c.list)},
		{synopsis: "show NAME [-json]", least: 1, most: 1, reads: true,
			run: inCounters(c.checkNames, c.show)},
		{synopsis: "raise NAME AT_LEAST", least: 2, most: 2,
			text: "issue no value below AT_LEAST any more; this never goes down. It also takes over a\n" +
				"record from another machine, or one that was set back. For a timestamp that lies\n" +
				"over a day ahead add -force.\n" +
				"It replaces a damaged one: add -name LINE, its definition",
			run: inCounters(c.parseFloor, c.raise)},
		{synopsis: "adopt [NAME]...", most: kinds.MaxNames,
			text: "take over records of another machine that has stopped for good, if they were\n" +
				"copied after it stopped; without a name, all of them",
			run: inCounters(c.checkAdopt, c.adopt)},
		{synopsis: "replicas K", least: 1, most: 1,
			text: "in Redis: from now on K replicas must have a grant; daemons with another replicas=K in\n" +
				"their URL get no grants",
			run: inCounters(c.parseReplicas, c.setReplicas)},
		{synopsis: "retire NAME -force", text: "refuse the name for ever", least: 1, most: 1,
			run: inCounters(c.checkRetire, c.retire)},
	}
}

const storeTimeout = 10 * time.Second

// A nameCommand is a call of `katsubushi name`.
type nameCommand struct {
	*call
	definition kinds.Definition // of create
	atLeast    uint64           // of raise
	replicas   int
	store      stores.CounterStore
}

// inCounters makes a verb that looks at or changes the records of sequences. check notes what is wrong with its words.
func inCounters(check func(*nameCommand), do func(*nameCommand, context.Context) int) func(*call) int {
	return func(a *call) int {
		c := &nameCommand{call: a}
		c.locateHere(!c.verb.reads)
		if c.counted() {
			check(c)
		}
		c.Counters.AnyDisk, c.Counters.Operator = c.AnyDisk, true
		if c.report("Counters.", c.Counters.Validate(), c.Counters.ReadSecrets()); c.Counters.Nowhere() {
			c.problem("%w", stores.ErrNoPlace)
		}
		if c.refused() {
			return exitUsage
		}
		c.warn(c.stderr)
		var err error
		if c.store, err = c.Counters.Open(); err != nil {
			return c.fail(err)
		}
		defer c.store.Close()
		ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
		defer cancel()
		return do(c, ctx)
	}
}

// note adds an error, if it is one, to what is wrong with the words.
func (c *nameCommand) note(err error) {
	if err != nil {
		c.problems = append(c.problems, err)
	}
}

func (c *nameCommand) parseLine() {
	var err error
	c.definition, err = c.Counters.ParseSequence(strings.Join(c.words, " "))
	c.note(err)
}

func (c *nameCommand) checkNames() {
	for _, name := range c.words {
		c.note(kinds.CheckName(name))
	}
}

func (c *nameCommand) parseFloor() {
	var err error
	c.atLeast, err = stores.ParseFloor(c.words[1])
	c.note(err)
	c.note(kinds.CheckName(c.words[0]))
}

func (c *nameCommand) checkAdopt() {
	c.checkNames()
	if !c.Counters.Files() {
		c.note(stores.ErrNotFiles)
	}
}

func (c *nameCommand) parseReplicas() {
	var err error
	if c.replicas, err = strconv.Atoi(c.words[0]); err != nil {
		c.problem("K=%.20s: a number of replicas", c.words[0])
	}
}

func (c *nameCommand) checkRetire() {
	c.checkNames()
	if err := c.Counters.CheckRetire(); err != nil {
		c.problem("retire: %w", err)
	}
}

func (c *nameCommand) show(ctx context.Context) int {
	r, err := c.store.Show(ctx, c.words[0])
	if err == nil || errors.Is(err, counter.ErrForeign) && r.Name != "" {
		return c.print([]counter.Record{r}, err)
	}
	return c.fail(err)
}

func (c *nameCommand) list(ctx context.Context) int {
	list, err := c.store.List(ctx)
	return c.print(list, errors.Join(err, stores.Faults(list)))
}

// leaders returns who leads, if one of the sequences has a leader; nil = none has.
func (c *nameCommand) leaders(list []counter.Record) (*leader.State, error) {
	e, ok := c.store.(stores.Elector)
	if !ok || !slices.ContainsFunc(list, func(r counter.Record) bool { return r.Strict }) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	now, err := stores.Leaders(ctx, e)
	if err != nil {
		return nil, err
	}
	return &now, nil
}

func (c *nameCommand) create(ctx context.Context) int {
	r, err := stores.Create(ctx, c.store, c.definition)
	switch {
	case contradicts(err):
		fmt.Fprintln(c.stderr, err)
		return exitUsage
	case err != nil:
		return c.fail(err)
	}
	c.hedge(ctx)
	recorded(c.stderr, c.Counters.Where())
	return c.print([]counter.Record{r}, nil)
}

// hedge says what may undo a change.
func (c *nameCommand) hedge(ctx context.Context) {
	if text := stores.NotPromised(ctx, c.store); text != "" {
		fmt.Fprintln(c.stderr, "not promised: "+text)
	}
}

func (c *nameCommand) raise(ctx context.Context) int {
	declared := func() kinds.Definition { return c.declared(c.words[0]) }
	if !c.force {
		if err := stores.FarAhead(ctx, c.store, c.words[0], c.atLeast, "-force"); err != nil {
			return c.fail(err)
		}
	}
	r, err := stores.Raise(ctx, c.store, c.words[0], c.atLeast, declared)
	if err != nil {
		return c.fail(err)
	}
	late := stores.Confirm(ctx, c.store)
	fmt.Fprintf(c.stderr, "sequence %s: no value below %d %s\n", r.Name, kinds.IDOf(r.Definition, r.Floor),
		c.Counters.AfterRaise(late))
	c.hedge(ctx)
	recorded(c.stderr, c.Counters.Where())
	return c.print([]counter.Record{r}, notConfirmed(late))
}

// notConfirmed says which daemons have not confirmed a change, if any.
func notConfirmed(late []string) error {
	if len(late) == 0 {
		return nil
	}
	return errors.New(strings.Join(late, "\n"))
}

// declared returns what the settings say of a name; without a Kind it is nothing.
func (c *nameCommand) declared(name string) kinds.Definition {
	var list kinds.List
	_ = list.Add(c.Definitions)
	if text, err := kinds.ReadFile(c.DefinitionsFile); err == nil {
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
func (c *nameCommand) setReplicas(ctx context.Context) int {
	store, ok := c.store.(interface {
		SetReplicas(ctx context.Context, n int) (before int, err error)
	})
	if !ok {
		fmt.Fprintln(c.stderr, "replicas: for Redis only")
		return exitUsage
	}
	before, err := store.SetReplicas(ctx, c.replicas)
	if err != nil {
		return c.fail(err)
	}
	fmt.Fprintf(c.stdout, "replicas=%d, before %d: daemons with another number in their URL are granted nothing. "+
		"Restart all daemons with replicas=%d in theirs\n", c.replicas, before, c.replicas)
	c.hedge(ctx)
	recorded(c.stderr, c.Counters.Where())
	return exitOK
}

// adopt raises what is another machine's to where it is.
func (c *nameCommand) adopt(ctx context.Context) int {
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
		errs = append(errs, notConfirmed(stores.Confirm(ctx, c.store)))
		recorded(c.stderr, c.Counters.Where())
	}
	if err := errors.Join(errs...); err != nil || len(adopted) > 0 {
		return c.print(adopted, err)
	}
	return c.fail(errors.New("no record was written on another machine"))
}

func (c *nameCommand) retire(ctx context.Context) int {
	r, err := stores.Retire(ctx, c.store, c.words[0], c.force, "-force")
	if err != nil {
		return c.fail(err)
	}
	late := stores.Confirm(ctx, c.store)
	c.hedge(ctx)
	recorded(c.stderr, c.Counters.Where())
	return c.print([]counter.Record{r}, notConfirmed(late))
}

// print answers exitFailure if there is an error, which it prints too.
func (c *nameCommand) print(list []counter.Record, err error) int {
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
			s.Led = stores.ShowLeader(leaders, r.Definition)
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
