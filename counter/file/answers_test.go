package file_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/file"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
)

func TestAnswers(t *testing.T) {
	w, disk := newWorld(), &crashdisk.Disk{}
	w.disk = disk
	d := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 10_001, Batch: 7}
	rate, refuse := d, d
	rate.Rate, refuse.RefuseLoss = 5, true
	put := func(text string) {
		if disk.Fault = nil; text == "" {
			_ = disk.Remove("orders.sequence")
			return
		}
		disk.Write("orders.sequence", []byte(text))
	}
	record := func() string { return string(disk.Read("orders.sequence")) }
	countertest.Answers(t, countertest.Subject{
		Kind: "file", Definition: d, Wrong: []counter.Definition{rate, refuse},
		Open:   func(bool) any { return w.open(t) },
		Record: record, Put: put,
		Damage: func() { put(strings.Repeat("\x00", 64)) },
		Spoil: func() {
			later := string(durable.Format{Kind: "sequence", Version: "2"}.Append(nil, "anything\n"))
			put(later + later)
		},
		Bad: map[string]func(){
			"lost content": func() { put(strings.Repeat("\x00", 8192)) },
			"a bad block": func() {
				disk.Fault = func(op string) error {
					if op == "read orders.sequence" {
						return syscall.EIO
					}
					return nil
				}
			},
			"of another sequence": func() { put(string(disk.Read("{orders}too.sequence"))) },
		},
		Copy: func() {
			w.machine = "machine-2"
			if _, err := w.open(t).Raise(ctx, "orders", 30); err != nil {
				t.Fatal(err)
			}
			w.machine = "machine-1"
		},
		Calls: func() string {
			n := map[string]int{}
			for _, op := range disk.Trace {
				word, _, _ := strings.Cut(op, " ")
				n[word]++
			}
			disk.Trace = nil
			var list []string
			for _, op := range slices.Sorted(maps.Keys(n)) {
				list = append(list, fmt.Sprint(op, " ", n[op]))
			}
			return strings.Join(list, ", ")
		},
		More: func(say func(string, any, error)) {
			strict := d
			strict.Name, strict.Strict = "strict", true
			a, b := w.open(t), w.open(t)
			for i, s := range []*file.Store{a, b} {
				_, err := s.Define(ctx, strict)
				say(fmt.Sprint("strict: define ", i), "", err)
				_, err = s.Reserve(ctx, "strict", 1)
				say(fmt.Sprint("strict: reserve ", i), "", err)
			}
			if err := disk.Remove("strict.strict"); err != nil {
				t.Fatal(err)
			}
			_, err := a.Reserve(ctx, "strict", 1)
			say("strict: reserve without the lock's file", "", err)
			_, err = b.Raise(ctx, "strict", 150)
			say("strict: raise by an operator", "", err)
			for i, s := range []*file.Store{b, w.open(t)} { // each ends before the next one
				block, err := s.Reserve(ctx, "strict", 1)
				say(fmt.Sprint("strict: reserve alone ", i), block.Lo, cmp.Or(err, s.Close()))
			}
			disk.Write("ORDERS.sequence", []byte(record()))
			_, err = w.open(t).Show(ctx, "ORDERS")
			say("another case", "", err)
		},
	})
}
