package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
)

var _ leader.Board = (*Store)(nil)

// A leaderForm is what the key of a group holds, as JSON. ID is empty if no daemon leads.
type leaderForm struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	Redis   string `json:"redis"`
	Term    uint64 `json:"term"`
	Heir    string `json:"heir"`
}

// A stampForm is what the key of a daemon's time holds, as JSON. It is not in the node key, because daemons of earlier
// releases want nothing else there.
type stampForm struct {
	Version int   `json:"version"`
	MS      int64 `json:"ms"`
}

// A nodeForm is what the key of a daemon holds, as JSON.
type nodeForm struct {
	Version int    `json:"version"`
	Redis   string `json:"redis"`
}

func (s *Store) leaderPrefix() string { return s.link.Root + "leader/" }
func (s *Store) timedPrefix() string  { return s.link.Root + "leader-time/" } // of groups of timestamps
func (s *Store) nodePrefix() string   { return s.link.Root + "node/" }
func (s *Store) stampPrefix() string  { return s.link.Root + "stamp/" }
func (s *Store) groupsKey() string    { return s.leaderPrefix() + "groups" }

// everyLeader is what the keys of all groups begin with, and no others.
func (s *Store) everyLeader() string { return s.link.Root + "leader" }

func (s *Store) leaderKey(group int) string {
	prefix := s.leaderPrefix()
	if leader.Timed(group) {
		prefix = s.timedPrefix()
	}
	return fmt.Sprintf("%s%02d", prefix, group)
}

// Commit implements leader.Board: one transaction, which reads all of the election too. The first claim
// of all fixes the number of groups.
func (s *Store) Commit(ctx context.Context, c leader.Change) (done bool, now leader.State, err error) {
	var compare []etcdlink.Cmp
	var then []etcdlink.Op
	for g, r := range c.Leaders {
		compare = append(compare, etcdlink.RevisionIs(s.leaderKey(g), r))
	}
	for id, r := range c.Nodes {
		compare = append(compare, etcdlink.RevisionIs(s.nodePrefix()+id, r))
	}
	for g, l := range c.Lead {
		then = append(then, put(s.leaderKey(g), leaderForm{formVersion, l.ID, l.Redis, l.Number, l.Heir}))
	}
	if c.Put != nil {
		then = append(then, put(s.nodePrefix()+c.Put.ID, nodeForm{formVersion, c.Put.Redis}))
	}
	if c.Put != nil && c.Stamp != 0 {
		then = append(then, put(s.stampPrefix()+c.Put.ID, stampForm{formVersion, c.Stamp}))
	}
	for _, id := range c.Drop {
		then = append(then, etcdlink.Delete(s.nodePrefix()+id), etcdlink.Delete(s.stampPrefix()+id))
	}
	if len(c.Lead) > 0 && s.groupsFixed.Load() {
		compare = append(compare, etcdlink.TextIs(s.groupsKey(), fmt.Sprint(leader.Groups)))
	} else if len(c.Lead) > 0 {
		compare = append(compare, etcdlink.RevisionIs(s.groupsKey(), 0))
		then = append(then, etcdlink.Put(s.groupsKey(), fmt.Sprint(leader.Groups)))
	}
	read := []etcdlink.Op{
		etcdlink.All(s.everyLeader()), etcdlink.All(s.nodePrefix()), etcdlink.All(s.stampPrefix()),
	}
	answer, err := s.link.commit(ctx, s.leaderPrefix(), compare, append(then, read...), read)
	if err != nil {
		return false, now, err
	}
	now, err = s.election(answer)
	return answer.Done, now, err
}

func put(key string, form any) etcdlink.Op {
	b, err := json.Marshal(form)
	if err != nil {
		panic(err) // texts and numbers
	}
	return etcdlink.Put(key, string(b))
}

// election reads the end of an answer, which has all keys of leaders and of daemons.
func (s *Store) election(answer etcdlink.Answer) (now leader.State, err error) {
	if err := s.began(answer.Cluster); err != nil {
		return now, fmt.Errorf("%w: %s: %w", leader.ErrReplaced, s.leaderPrefix(), err)
	}
	ranges := answer.Found[len(answer.Found)-3:]
	if err := s.leaders(&now, ranges[0]); err != nil {
		return now, err
	}
	stamps := map[string]int64{}
	for _, kv := range ranges[2].Pairs {
		var f stampForm
		if err := decodeForm(kv, &f); err == nil { // one that cannot be read is no vote
			stamps[strings.TrimPrefix(kv.Key, s.stampPrefix())] = f.MS
		}
	}
	for _, kv := range ranges[1].Pairs { // by key, and so by ID
		var f nodeForm
		if err := decodeForm(kv, &f); err != nil {
			return now, err
		}
		id := strings.TrimPrefix(kv.Key, s.nodePrefix())
		now.Nodes = append(now.Nodes, leader.NodeKey{
			Node: leader.Node{ID: id, Redis: f.Redis}, Revision: kv.Revision, Stamp: stamps[id],
		})
	}
	return now, nil
}

func (s *Store) leaders(now *leader.State, r etcdlink.Found) error {
	fixed := false
	for _, kv := range r.Pairs {
		if kv.Key == s.groupsKey() {
			if kv.Text != fmt.Sprint(leader.Groups) {
				return fmt.Errorf("%s: sequences with order=strict are led in %q groups here, and this program has %d: daemons "+
					"of two versions, or a key that was edited", kv.Key, kv.Text, leader.Groups)
			}
			fixed = true
			continue
		}
		g, l, err := s.leaderOf(kv)
		if err != nil {
			return err
		}
		now.Leaders[g] = l
	}
	s.groupsFixed.Store(fixed)
	return nil
}

// leaderOf reads the key of a group.
func (s *Store) leaderOf(kv etcdlink.Pair) (group int, l leader.Leader, err error) {
	group, err = strconv.Atoi(kv.Key[strings.LastIndexByte(kv.Key, '/')+1:])
	if err != nil || group < 0 || group >= leader.MaxGroups || kv.Key != s.leaderKey(group) {
		return 0, l, fmt.Errorf("%s: there is no such group", kv.Key)
	}
	var f leaderForm
	if err := decodeForm(kv, &f); err != nil {
		return 0, l, err
	}
	return group,
		leader.Leader{Node: leader.Node{ID: f.ID, Redis: f.Redis}, Number: f.Term, Heir: f.Heir, Revision: kv.Revision}, nil
}

// decodeForm reads what put has written.
func decodeForm(kv etcdlink.Pair, form any) error {
	d := json.NewDecoder(strings.NewReader(kv.Text))
	d.DisallowUnknownFields()
	v := struct{ Version int }{}
	if err := json.Unmarshal([]byte(kv.Text), &v); err != nil || v.Version != formVersion || d.Decode(form) != nil {
		return fmt.Errorf("%s: not what katsubushi wrote: delete the key, and it is written again", kv.Key)
	}
	return nil
}

// Watch implements leader.Board. It does not watch the keys of daemons, each of which changes every
// second. A call within a Term that was refused is a hint too.
func (s *Store) Watch(ctx context.Context, changed func(map[int]leader.Leader)) error {
	s.hint.Store(&changed)
	return mark(s.link.Watch(ctx, s.everyLeader(), func(a etcdlink.Answer) { changed(s.written(a)) }))
}

// written returns what a Watch has seen of groups, or nil if there is anything else that it has seen.
func (s *Store) written(a etcdlink.Answer) map[int]leader.Leader {
	written := map[int]leader.Leader{}
	for _, kv := range a.Found[0].Pairs {
		g, l, err := s.leaderOf(kv)
		if err != nil { // or it was deleted
			return nil
		}
		written[g] = l
	}
	if len(written) == 0 || s.began(a.Cluster) != nil {
		return nil
	}
	return written
}
