package etcd_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/etcd"
	"github.com/katsubushi/katsubushi/v3/counter/leader"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
)

// A term is a daemon that leads, and an operator.
type term struct {
	counter.Store
	counter.Admin
	all *etcd.Store
}

func (s term) Define(ctx context.Context, d counter.Definition) (counter.Record, error) {
	return s.all.Define(ctx, d)
}
func (s term) Close() error { return s.all.Close() }

func TestAnswers(t *testing.T) {
	for _, kind := range []string{"etcd", "etcd-strict"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			answers(t, kind)
		})
	}
}

func answers(t *testing.T, kind string) {
	m := etcdtest.Start(t)
	root := "/katsubushi/answers/"
	key, url := root+"seq/orders", "etcd://"+m.Addr()+"?ns=answers"
	d := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 10_001, Batch: 7,
		Strict: kind == "etcd-strict"}
	me := leader.Node{ID: "x"}
	group := leader.GroupOf("orders")
	_, now, err := open(t, url, patient).Commit(bg,
		leader.Change{Lead: map[int]leader.Leader{group: {Node: me, Number: 1}}, Put: &me})
	if err != nil {
		t.Fatal(err)
	}
	fence := leader.Term{Group: group, Fence: now.Leaders[group].Revision, Number: 1}
	put := func(text string) {
		if text == "" {
			m.Delete(root + "seq/")
			return
		}
		m.Put(key, text)
	}
	record := func() string { return m.Get(key) }
	status, err := m.Client().Status(bg, m.Addr())
	if err != nil {
		t.Fatal(err)
	}
	cluster := fmt.Sprintf("%x", status.Header.ClusterId)
	words := map[string]string{m.Addr(): "ADDRESS", cluster: "CLUSTER"}
	countertest.Answers(t, countertest.Subject{
		Kind: kind, Definition: d, Record: record, Put: put, Words: words,
		Open: func(bool) any {
			s := open(t, url, patient)
			if d.Strict {
				return term{s.Within(fence), s, s}
			}
			return s
		},
		Break: map[string]func(){
			"damaged":             func() { put(`{"version":1,"next":5}`) },
			"spoilt":              func() { put(`{"version":2}`) },
			"copied":              func() { put(strings.Replace(record(), cluster, "1234567890abcdef", 1)) },
			"of another sequence": func() { put(strings.ReplaceAll(record(), "orders", "items")) },
			"floor above next":    func() { put(strings.Replace(record(), `"floor":0`, `"floor":99`, 1)) },
		},
		Calls: m.Calls,
		Down: func() any {
			m.Kill()
			return open(t, url, time.Second)
		},
	})
}
