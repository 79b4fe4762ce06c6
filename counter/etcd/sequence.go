package etcd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/ledger"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

// An entry is a record, but for its key and its cluster.
type entry struct {
	ledger.Basic
	birth string
}

// Copy implements ledger.Entry.
func (e *entry) Copy() ledger.Entry { return &entry{e.Basic, e.birth} }

// Birth implements ledger.Entry.
func (e *entry) Birth() string { return e.birth }

// A version is what was read from a key.
type version struct {
	text     string // that is there
	revision int64  // that wrote it; 0 = nothing is there
	cluster  string // that has answered
}

// New implements ledger.Driver. The first record of a name is made in the cluster that the daemon began with.
func (d driver) New(found ledger.Found, def counter.Definition, token string) (ledger.Entry, error) {
	if found.Fault == nil {
		if err := d.began(found.Version.(version).cluster); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", counter.ErrForeign, d.keyOf(def.Name), err)
		}
	}
	return &entry{ledger.Basic{Record: counter.NewRecord(def, token)}, rand.Text()}, nil
}

// Load implements ledger.Driver.
func (d driver) Load(ctx context.Context, names []string) ([]ledger.Found, error) {
	if len(names) == 1 {
		got, err := d.link.get(ctx, d.keyOf(names[0]))
		return d.found(names, got), err
	}
	var ops []etcdlink.Op
	for _, name := range names {
		ops = append(ops, etcdlink.Get(d.keyOf(name)))
	}
	got, err := d.link.commit(ctx, d.keyOf(names[0]), nil, ops, nil)
	return d.found(names, got), err
}

// found reads an answer that has a record for each of some names.
func (d driver) found(names []string, got etcdlink.Answer) (all []ledger.Found) {
	_ = d.began(got.Cluster) // from here on that is known; an operator may go on with another one
	for i := range min(len(names), len(got.Found)) {
		all = append(all, d.read(names[i], got.Cluster, got.Found[i].Pairs))
	}
	return all
}

// read reads what is there in the place of a record.
func (d driver) read(name, cluster string, kvs []etcdlink.Pair) ledger.Found {
	found := ledger.Found{Name: name, Version: version{cluster: cluster}}
	if len(kvs) == 0 {
		return found
	}
	found.Version = version{kvs[0].Text, kvs[0].Revision, cluster}
	key := d.keyOf(name)
	r, err := decode([]byte(kvs[0].Text))
	if err == nil && r.Name != name {
		err = fmt.Errorf("the record is that of sequence %s", r.Name)
	}
	switch {
	case errors.Is(err, errVersion):
		found.Fault = fmt.Errorf("%w: %s: %w", counter.ErrUnusable, key, err)
	case err != nil:
		found.Fault = counter.Damaged(name, key, err)
	default:
		found.Entry = &entry{ledger.Basic{Record: r.Record}, r.Birth}
		found.Foreign = r.copied(key, cluster)
	}
	return found
}

// copied says in ledger.Words why a record does not belong to its key, for any reader.
func (r *record) copied(key, cluster string) string {
	from := ""
	switch {
	case r.Key != key:
		from = r.Key
	case r.Cluster != cluster:
		from = fmt.Sprintf("cluster %s, and this is %s", r.Cluster, cluster)
	default:
		return ""
	}
	return "{AT} was copied from " + from + ". Once nobody issues from there, take it over: `katsubushi name " +
		"raise {NAME} {LEAST}`, or a larger value if more was issued since it was copied"
}

// Swap implements ledger.Driver. The texts are compared too: among members of two clusters a revision says little.
func (d driver) Swap(ctx context.Context, fence ledger.Fence, writes []ledger.Write) ([]ledger.Found, error) {
	var compare []etcdlink.Cmp
	var then, otherwise []etcdlink.Op
	var names, texts []string
	for _, w := range writes {
		name, found := w.Next.Plain().Name, w.Found.Version.(version)
		key := d.keyOf(name)
		r := record{*w.Next.Plain(), key, found.cluster, w.Next.Birth()}
		names, texts = append(names, name), append(texts, string(r.encode()))
		compare = append(compare, etcdlink.RevisionIs(key, found.revision))
		if found.revision != 0 {
			compare = append(compare, etcdlink.TextIs(key, found.text))
		}
		then = append(then, etcdlink.Put(key, string(r.encode())))
		if w.Found.Entry == nil && r.Timed() {
			free, take, err := d.takeNode(ctx, r.Definition)
			if err != nil {
				return nil, err
			}
			compare, then = append(compare, free), append(then, take)
		}
		if w.Announce {
			then = append(then, etcdlink.Put(d.changesKey(), r.Token))
		}
		otherwise = append(otherwise, etcdlink.Get(key))
	}
	term, _ := fence.(*within)
	if term != nil {
		compare, otherwise = append(compare, term.compare()), append(otherwise, term.read())
	}
	answer, err := d.link.commit(ctx, d.keyOf(names[0]), compare, then, otherwise)
	if err != nil {
		return nil, err
	}
	for i, w := range writes {
		if was := w.Found.Version.(version).cluster; was != answer.Cluster {
			return nil, fmt.Errorf("%w: %s: the hosts of the URL belong to two clusters, %s and %s",
				counter.ErrForeign, d.keyOf(names[i]), was, answer.Cluster)
		}
	}
	if !answer.Done && term != nil {
		if err := term.judge(answer.Found[len(writes)].Pairs); err != nil {
			return nil, err
		}
	}
	if !answer.Done {
		return d.found(names, answer), ledger.ErrAgain
	}
	var now []ledger.Found
	for i, w := range writes {
		written := version{texts[i], answer.History.Revision, answer.Cluster}
		now = append(now, ledger.Found{Name: names[i], Entry: w.Next, Version: written})
	}
	return now, nil
}

// takeNode returns what makes a transaction write the node of new timestamps too, if it is still as it is now. The
// error is counter.ErrNode if another name has it.
func (d driver) takeNode(ctx context.Context, def counter.Definition) (free etcdlink.Cmp, take etcdlink.Op, err error) {
	key := fmt.Sprintf("%stime-node/%s/%d", d.link.Root, def.Time.Layout, def.Time.Node)
	got, err := d.link.get(ctx, key)
	if err != nil {
		return free, take, err
	}
	revision := int64(0)
	for _, kv := range got.Found[0].Pairs {
		if revision = kv.Revision; kv.Text != def.Name {
			return free, take, counter.NodeTaken(def, kv.Text)
		}
	}
	return etcdlink.RevisionIs(key, revision), etcdlink.Put(key, def.Name), nil
}

// All implements ledger.Driver.
func (d driver) All(ctx context.Context) (all []ledger.Found, err error) {
	root := d.keyOf("")
	got, err := d.link.all(ctx, root)
	if err != nil {
		return nil, err
	}
	_ = d.began(got.Cluster)
	for _, kv := range got.Found[0].Pairs { // by key, and so by name
		all = append(all, d.read(strings.TrimPrefix(kv.Key, root), got.Cluster, []etcdlink.Pair{kv}))
	}
	return all, nil
}

// Changes implements ledger.Driver: it reads one key.
func (d driver) Changes(ctx context.Context) (string, error) {
	got, err := d.link.get(ctx, d.changesKey())
	if err != nil {
		return "", err
	}
	now := got.Cluster + " "
	for _, kv := range got.Found[0].Pairs {
		now += kv.Text // random
	}
	return now, nil
}
