package file_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
	"github.com/katsubushi/katsubushi/v3/test/crashdisk"
)

func TestAnswers(t *testing.T) {
	w, disk := newWorld(), &crashdisk.Disk{}
	w.disk = disk
	d := counter.Definition{Name: "orders", Start: 1, Step: 2, Offset: 1, Max: 10_001, Batch: 7}
	put := func(text string) {
		if disk.Fault = nil; text == "" {
			w.tokens = 0
			_, _ = disk.Remove("orders.sequence"), disk.Remove("{orders}too.sequence")
			return
		}
		disk.Write("orders.sequence", []byte(text))
	}
	record := func() string { return string(disk.Read("orders.sequence")) }
	countertest.Answers(t, countertest.Subject{
		Kind: "file", Definition: d,
		Open:   func(bool) any { return w.open(t) },
		Record: record, Put: put,
		Break: map[string]func(){
			"damaged": func() { put(strings.Repeat("\x00", 64)) },
			"spoilt": func() {
				later := string(durable.Format{Kind: "sequence", Version: "2"}.Append(nil, "anything\n"))
				put(later + later)
			},
			"copied": func() {
				w.machine = "machine-2"
				if _, err := w.open(t).Raise(ctx, "orders", 30); err != nil {
					t.Fatal(err)
				}
				w.machine = "machine-1"
			},
			"without the lock of strict": func() {
				if err := disk.Remove("strict.strict"); err != nil {
					t.Fatal(err)
				}
			},
			"in another case": func() { disk.Write("ORDERS.sequence", []byte(record())) },
			"lost content":    func() { put(strings.Repeat("\x00", 8192)) },
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
		Calls: func() map[string]int {
			calls := map[string]int{}
			for _, op := range disk.Trace {
				word, _, _ := strings.Cut(op, " ")
				calls[word]++
			}
			return calls
		},
	})
}
