package names

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/internal/kinds"
)

// open makes what issues the ids of a definition. If that implements io.Closer, it is closed once no session can ask
// it any more.
func (n *Names) open(ctx context.Context, def kinds.Definition) (issuer.Kind, error) {
	if def.Recorded() {
		return n.openSequence(ctx, def)
	}
	return n.given.Issuer.Kind(def)
}

// openAtOnce is how many sequences are recorded at the same time: each takes a few writes that are
// synced, and a file system syncs many together.
const openAtOnce = 16

// declare opens new definitions and adds all of them to the catalogue, or none.
func (n *Names) declare(ctx context.Context, list []kinds.Definition) error {
	made := make([]issuer.Kind, len(list))
	errs := make([]error, len(list))
	var recorded sync.WaitGroup
	room := make(chan struct{}, openAtOnce)
	for i, def := range list {
		open := func() { made[i], errs[i] = n.open(ctx, def) }
		if !def.Recorded() {
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
			errs[i] = fmt.Errorf("name %s: %w", def.Name, errs[i])
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
	n.Catalog.Declare(opened)
	return nil
}

// Reload reads the file of definitions again, if there is one, and declares the names that are new. A file that is not
// right changes nothing.
func (n *Names) Reload() error {
	if n.c.DefinitionsFile == "" {
		return nil
	}
	text, err := kinds.ReadFile(n.c.DefinitionsFile)
	if err != nil {
		return err
	}
	n.declaring.Lock()
	defer n.declaring.Unlock()
	served := n.served()
	all, _, err := n.c.definitions(text, func(def kinds.Definition) error {
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
	if all := len(served) + len(fresh); all > kinds.MaxNames {
		return fmt.Errorf("%d names with those that are served already: %d allowed", all, kinds.MaxNames)
	}
	if err := n.declare(context.Background(), fresh); err != nil {
		return err
	}
	for _, def := range all {
		delete(served, def.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(served)) {
		n.given.Log.Warn("a name is no longer in the file: it is served until the daemon stops", "name", name)
	}
	for _, def := range fresh {
		n.given.Log.Info("name", "definition", def.String())
	}
	return nil
}

// served returns the definitions of all names that are declared.
func (n *Names) served() map[string]kinds.Definition {
	served := map[string]kinds.Definition{}
	for _, g := range n.Catalog.Names() {
		served[g.Name] = g.Definition
	}
	return served
}

func closeKind(k issuer.Kind) {
	if c, ok := k.(io.Closer); ok {
		c.Close()
	}
}
