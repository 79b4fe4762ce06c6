package cas

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// This file is for test/explore, which runs every schedule of a small world. It changes nothing.

// Clone is a copy of a Session that goes on by itself. It shares what is never written to: the records of
// readings. Driver, Free, Rules, Now and Announced are the original's.
func (s *Session) Clone() *Session {
	c := *s
	c.sent, c.conns = maps.Clone(s.sent), slices.Clip(s.conns)
	c.readings, c.drains = slices.Clone(s.readings), slices.Clone(s.drains)
	c.lanes, c.owners, c.asked = maps.Clone(s.lanes), maps.Clone(s.owners), maps.Clone(s.asked)
	for k, l := range c.lanes {
		l.unanswered = slices.Clip(l.unanswered)
		c.lanes[k] = l
	}
	for k, sent := range c.asked {
		c.asked[k] = slices.Clip(sent)
	}
	c.left, c.published = maps.Clone(s.left), maps.Clone(s.published)
	return &c
}

// A Visitor is shown what decides how a Session goes on. It may take times and names for equal that are not.
type Visitor interface {
	Number(int64)
	Time(int64)         // Unix ms
	Boot(time.Duration) // of Moment.Boot
	Text(string)        // a record, or ""
	Name(string)        // of a connection, a session or a request id
}

// Mine says whether this process has ever made a request id.
func (s *Session) Mine(token string) bool { return s.mine(token) }

// Visit shows a Visitor all that decides how the Session goes on, always in the same order. It leaves out
// the settings, what only Free reads, what is only for Status, the text that meta was parsed from, and which
// request ids are this process's: those are asked for with Mine, and others never matter.
func (s *Session) Visit(v Visitor) {
	v.Name(s.conn)
	v.Name(s.session)
	v.Text(s.metaText)
	v.Number(int64(len(s.readings)))
	for _, r := range s.readings {
		v.Boot(r.asked)
		v.Boot(r.at)
		v.Number(int64(len(r.texts)))
		inOrder(r.texts, func(w uint64, text string) {
			v.Number(int64(w))
			v.Text(text)
		})
	}
	v.Number(int64(len(s.lanes)))
	for _, k := range s.keys() {
		s.lanes[k].visit(k, v)
	}
	v.Number(int64(len(s.asked)))
	inOrder(s.asked, func(_ string, sent []pool.Sent) { visitSent(sent, v) })
	v.Number(int64(len(s.drains)))
	for _, d := range s.drains {
		v.Number(int64(d.worker))
		v.Time(d.hi)
		v.Text(d.text)
	}
	v.Number(int64(len(s.left)))
	inOrder(s.left, func(w uint64, _ bool) { v.Number(int64(w)) })
	if v.Number(int64(len(s.owners))); s.raising {
		v.Number(1)
		v.Time(s.raiseHi)
		v.Name(s.raiseConn)
	}
	v.Number(int64(len(s.published)))
}

// inOrder calls do for all entries of a map, by their keys. It allocates nothing for a few.
func inOrder[K cmp.Ordered, V any](m map[K]V, do func(K, V)) {
	var few [8]K
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		do(k, m[k])
	}
}

func (l lane) visit(k laneKey, v Visitor) {
	v.Number(int64(k.worker))
	v.Text(k.owner)
	visitRecord(l.rec, v)
	v.Name(l.epoch)
	v.Boot(l.acked)
	visitSent(l.unanswered, v)
	v.Name(l.session)
	state := int64(0)
	switch {
	case errors.Is(l.ended, workerid.ErrCloned):
		state = 2
	case l.ended != nil:
		state = 1
	}
	if l.unheard {
		state += 4
	}
	v.Number(state)
}

func visitSent(all []pool.Sent, v Visitor) {
	v.Number(int64(len(all)))
	for _, s := range all {
		v.Number(int64(s.Worker))
		visitRecord(s.Record, v)
		v.Name(s.Epoch)
	}
}

func visitRecord(r pool.Record, v Visitor) {
	v.Time(r.Mark)
	v.Time(r.Lo)
	v.Name(r.Token)
	v.Text(r.Owner)
}
