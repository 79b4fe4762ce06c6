package daemon

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// checkDefinition says why this daemon cannot serve a definition.
func (c *Config) checkDefinition(def kinds.Definition) error {
	if c.Layout.Check() != nil { // told already; what fits into it is not known
		return nil
	}
	switch def.Kind {
	case kinds.Sequence:
		return c.checkSequence(def)
	case kinds.Snowflake:
		return errors.Join(c.checkWorkers(def), issuer.CheckKind(def, c.Layout, c.MaxRunAhead))
	}
	return issuer.CheckKind(def, c.Layout, c.MaxRunAhead)
}

// checkWorkers returns why a snowflake cannot hold the daemon's worker ids, or nil.
func (c *Config) checkWorkers(def kinds.Definition) error {
	l, most := issuer.LayoutOf(def, c.Layout), slices.Max(append([]uint64{0}, c.WorkerIDs...))
	if c.leased() {
		most = c.Store.Max
	}
	if most > l.MaxWorker() {
		return fmt.Errorf("worker ids go up to %d: layout %s has 0 to %d", most, l, l.MaxWorker())
	}
	return nil
}

// open makes what issues the ids of a definition. If that implements io.Closer, it is closed once no session can ask
// it any more.
func (d *Daemon) open(def kinds.Definition) (issuer.Kind, error) {
	if def.Kind == kinds.Sequence {
		return d.openSequence(def)
	}
	return d.issuer.Kind(def)
}

// definitions returns the definitions of the flags, then those of the file's content, with all that is
// wrong with each of the two. also checks what checkDefinition does not; nil = nothing.
func (c *Config) definitions(file []byte, also func(kinds.Definition) error) (all []kinds.Definition, flags,
	inFile error) {
	list := kinds.List{Check: func(def kinds.Definition) error {
		err := c.checkDefinition(def)
		if also != nil {
			err = errors.Join(err, also(def))
		}
		return err
	}}
	flags = list.Add(c.Generators)
	inFile = list.AddFile(file)
	return list.All(), flags, inFile
}

// readGenerators reads the file of definitions, unless it was read already.
func (c *Config) readGenerators() error {
	if c.GeneratorsFile == "" || c.generators != nil {
		return nil
	}
	text, err := kinds.ReadFile(c.GeneratorsFile)
	if err != nil {
		return err
	}
	if _, _, err := c.definitions(text, nil); err != nil {
		return err
	}
	c.generators = append([]byte{}, text...) // not nil, even if the file is empty
	return nil
}

// declareGenerators declares what the flags and the file define, at the start.
func (d *Daemon) declareGenerators() error {
	all, flags, inFile := d.c.definitions(d.c.generators, nil)
	if err := errors.Join(flags, inFile); err != nil {
		return err
	}
	return d.declare(all)
}

// openAtOnce is how many sequences are recorded at the same time: each takes a few writes that are
// synced, and a file system syncs many together.
const openAtOnce = 16

// declare opens new definitions and adds all of them to the catalogue, or none.
func (d *Daemon) declare(list []kinds.Definition) error {
	made := make([]issuer.Kind, len(list))
	errs := make([]error, len(list))
	var recorded sync.WaitGroup
	room := make(chan struct{}, openAtOnce)
	for i, def := range list {
		open := func() { made[i], errs[i] = d.open(def) }
		if def.Kind != kinds.Sequence {
			open()
			continue
		}
		room <- struct{}{}
		recorded.Go(func() {
			open()
			<-room
		})
	}
	recorded.Wait()
	var opened []issuer.Declared
	for i, def := range list {
		if errs[i] != nil {
			errs[i] = fmt.Errorf("generator %s: %w", def.Name, errs[i])
			continue
		}
		opened = append(opened, issuer.Declared{Definition: def, From: made[i]})
	}
	if err := errors.Join(errs...); err != nil {
		for _, o := range opened {
			closeKind(o.From)
		}
		return err
	}
	d.catalog.Declare(opened)
	return nil
}

// reloadGenerators reads the file of definitions again and declares the names that are new. A file that
// is not right changes nothing. Names never go away while the daemon runs, and never change their
// meaning: clients would take a snowflake for a number of the sequence that they asked for.
func (d *Daemon) reloadGenerators() error {
	text, err := kinds.ReadFile(d.c.GeneratorsFile)
	if err != nil {
		return err
	}
	d.declaring.Lock()
	defer d.declaring.Unlock()
	served := d.served()
	all, _, err := d.c.definitions(text, func(def kinds.Definition) error {
		if old, ok := served[def.Name]; ok && old != def {
			return fmt.Errorf("%q is not what is served as %q: to change it, restart the daemon", def, old)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fresh := slices.DeleteFunc(slices.Clone(all), func(def kinds.Definition) bool {
		_, ok := served[def.Name]
		return ok
	})
	if n := len(served) + len(fresh); n > kinds.MaxNames {
		return fmt.Errorf("%d names with those that are served already: %d allowed", n, kinds.MaxNames)
	}
	if err := d.declare(fresh); err != nil {
		return err
	}
	for _, def := range all {
		delete(served, def.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(served)) {
		d.c.Log.Warn("a generator is no longer in the file: it is served until the daemon stops", "name", name)
	}
	for _, def := range fresh {
		d.c.Log.Info("generator", "definition", def.String())
	}
	return nil
}

// served returns the definitions of all names that are declared.
func (d *Daemon) served() map[string]kinds.Definition {
	served := map[string]kinds.Definition{}
	for _, g := range d.catalog.Generators() {
		served[g.Name] = g.Definition
	}
	return served
}

// closeGenerators closes what the definitions opened.
func (d *Daemon) closeGenerators() {
	for _, g := range d.catalog.Generators() {
		closeKind(g.From)
	}
}

func closeKind(k issuer.Kind) {
	if c, ok := k.(io.Closer); ok {
		c.Close()
	}
}

// wakeAll makes everybody ask again who waits for an id. Any goroutine may call
// it, from when definitions are opened.
func (d *Daemon) wakeAll() {
	d.catalog.Wake()
	d.front.Wake()
}
