package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// attempts is how often something is tried anew that others prevented.
const attempts = 4

var errBusy = errors.New("others keep changing the same key")

// prevented says whether a change was refused because the keys are not as was thought. Then it was not
// carried out.
func prevented(err error) bool {
	return errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists)
}

// Commit implements cas.Driver.
func (d *driver) Commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	a, err := d.commit(ctx, conn, c)
	return a, d.failed(err)
}

func (d *driver) commit(ctx context.Context, conn string, c pool.Change) (cas.Answer, error) {
	l, err := d.over(conn)
	if err != nil {
		return cas.Answer{}, err
	}
	done := cas.Answer{Done: true, Session: hex(d.kept.id)}
	if c.IfMeta == "" && c.SetMeta == "" && !c.Fresh && len(c.If) == 0 {
		return done, nil
	}
	meta := d.target.Key("meta")
	want := map[string]string{} // what is compared; "" = absent
	if c.IfMeta != "" || c.Fresh {
		want[meta] = c.IfMeta
	}
	for w, text := range c.If {
		want[d.target.Key("id", cas.Name(w))] = text
	}
	for range attempts {
		_, readMeta := l.known[meta]
		if !l.has(want) || !readMeta {
			v, same, err := d.compare(ctx, l, want, c)
			if err != nil {
				return cas.Answer{}, err
			}
			if !same {
				return cas.Answer{View: v, Session: done.Session}, nil
			}
		}
		err := d.change(ctx, l, c)
		if err == nil {
			return done, nil
		}
		if !prevented(err) {
			return cas.Answer{}, err
		}
		clear(l.known)
	}
	return cas.Answer{}, fmt.Errorf("%s: %w", d.target.Key(), errBusy)
}

// has says whether all keys are known over this connection, and as is wanted.
func (l *link) has(want map[string]string) bool {
	for key, text := range want {
		if n, ok := l.known[key]; !ok || n.absent != (text == "") || n.text != text {
			return false
		}
	}
	return true
}

// compare reads what a Change compares, and says whether all of it is as is wanted.
func (d *driver) compare(ctx context.Context, l *link, want map[string]string, c pool.Change) (v pool.View, same bool,
	err error) {
	if err := d.sync(ctx, l); err != nil {
		return v, false, err
	}
	meta := d.target.Key("meta")
	keys := slices.Sorted(maps.Keys(want))
	if _, compared := want[meta]; !compared {
		keys = append(keys, meta)
	}
	found, err := d.readTwice(ctx, l, keys, nothing)
	if err != nil {
		return v, false, err
	}
	maps.Copy(l.known, found)
	v = pool.View{Meta: found[meta].text, Records: map[uint64]string{}}
	for w := range c.If {
		if n := found[d.target.Key("id", cas.Name(w))]; !n.absent {
			v.Records[w] = n.text
		}
	}
	return v, l.has(want), nil
}

// change sends a Change as one multi that compares the versions that are known.
func (d *driver) change(ctx context.Context, l *link, c pool.Change) error {
	var ops []any
	var keys, texts []string // written by each of them; "" = none
	creates := false
	add := func(key, text string, op any) {
		ops, keys, texts = append(ops, op), append(keys, key), append(texts, text)
	}
	put := func(key, text string) {
		if n := l.known[key]; n.absent {
			creates = true
			add(key, text, &zk.CreateRequest{Path: key, Data: []byte(text), Acl: d.acl})
		} else {
			add(key, text, &zk.SetDataRequest{Path: key, Data: []byte(text), Version: n.version})
		}
	}
	check := func(key string) {
		n := l.known[key]
		if !n.absent {
			add("", "", &zk.CheckVersionRequest{Path: key, Version: n.version})
			return
		}
		creates = true // there is no check for absence
		add("", "", &zk.CreateRequest{Path: key, Acl: d.acl})
		add("", "", &zk.DeleteRequest{Path: key, Version: -1})
	}
	meta := d.target.Key("meta")
	if c.SetMeta != "" {
		put(meta, c.SetMeta)
	} else if c.IfMeta != "" || c.Fresh {
		check(meta)
	}
	for _, w := range slices.Sorted(maps.Keys(c.If)) {
		key := d.target.Key("id", cas.Name(w))
		if text, ok := c.Set[w]; ok {
			put(key, text)
		} else {
			check(key)
		}
	}
	if creates {
		if err := d.breed(ctx, l); err != nil {
			return err
		}
	}
	answers, err := d.multi(ctx, l, d.target.Key(), ops...)
	if err != nil {
		return err
	}
	for i, key := range keys {
		if key == "" {
			continue
		}
		n := node{text: texts[i]}
		if s := answers[i].Stat; s != nil { // not that of a create
			n.version = s.Version
			d.note(func(f *facts) { f.zxid = s.Mzxid })
		}
		l.known[key] = n
	}
	return nil
}

// multi carries out all of ops or nothing. The answers are as many as ops.
func (d *driver) multi(ctx context.Context, l *link, key string, ops ...any) ([]zk.MultiResponse, error) {
	answers, err := call(ctx, l, func(c *zk.Conn) ([]zk.MultiResponse, error) { return c.Multi(ops...) })
	if err == nil && len(answers) != len(ops) {
		err = fmt.Errorf("%d answers to %d parts of a multi", len(answers), len(ops))
	}
	if err != nil {
		err = d.explain(err, key)
	}
	return answers, err
}

// breed makes the keys above all others.
func (d *driver) breed(ctx context.Context, l *link) error {
	if l.bred {
		return nil
	}
	var keys []string
	path := ""
	for _, part := range append(slices.Clone(d.target.Path), d.target.Namespace) {
		path += "/" + part
		keys = append(keys, path)
	}
	for _, part := range []string{"id", "on", "peers"} {
		keys = append(keys, d.target.Key(part))
	}
	for _, key := range keys {
		_, err := call(ctx, l, func(c *zk.Conn) (string, error) {
			if there, _, err := c.Exists(key); there || err != nil { // it may not be allowed to make the first ones
				return "", err
			}
			return c.Create(key, nil, 0, d.acl)
		})
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return d.explain(err, key)
		}
	}
	l.bred = true
	return nil
}

// Announce implements cas.Driver.
func (d *driver) Announce(ctx context.Context, conn string, worker uint64, text string) error {
	return d.failed(d.hold(ctx, conn, d.target.Key("on", cas.Name(worker)), text))
}

// Publish implements cas.Driver.
func (d *driver) Publish(ctx context.Context, conn, name, text string) error {
	return d.failed(d.hold(ctx, conn, d.target.Key("peers", name), text))
}

// hold makes an ephemeral key, or replaces it, or deletes it if it is this session's.
func (d *driver) hold(ctx context.Context, conn, key, text string) error {
	l, err := d.over(conn)
	if err != nil {
		return err
	}
	for range attempts {
		found, err := d.read(ctx, l, []string{key})
		if err != nil {
			return err
		}
		n := found[key]
		mine := n.owner == d.kept.id
		create := &zk.CreateRequest{Path: key, Data: []byte(text), Acl: d.acl, Flags: zk.FlagEphemeral}
		remove := &zk.DeleteRequest{Path: key, Version: n.version}
		switch {
		case text == "" && (n.absent || !mine), text != "" && mine && n.text == text:
			return nil
		case text == "":
			_, err = d.multi(ctx, l, key, remove)
		case n.absent:
			_, err = d.multi(ctx, l, key, create)
		case mine:
			_, err = d.multi(ctx, l, key, &zk.SetDataRequest{Path: key, Data: []byte(text), Version: n.version})
		default:
			_, err = d.multi(ctx, l, key, remove, create)
		}
		if !prevented(err) {
			return err
		}
		if errors.Is(err, zk.ErrNoNode) && n.absent { // there is no key above it
			return err
		}
		if err := d.sync(ctx, l); err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: %w", key, errBusy)
}
