package main

import (
	"strings"
	"syscall"
	"testing"
)

// The disk does not answer: values come while the block lasts, then a refusal after -max-wait. Other keys of the same
// loop are answered all the time, and with the disk values come back.
func TestProcessSequenceDiskStandsStill(t *testing.T) {
	t.Parallel()
	dir, freeze, thaw := frozenDisk(t)
	p := start(t, "-worker-id", "28", "-state-dir", dir, "-loops", "1", "-max-wait", "300ms", "-generator",
		"orders sequence batch=40")
	c, other := countFrom(t, p), countFrom(t, p)
	var last uint64
	await(t, "a value", func() (ok bool) { // on a busy machine, the first block may take longer than -max-wait
		v, says := c.get(t, "orders")
		last = v
		return says == ""
	})
	freeze()
	says := ""
	n := 0
	for ; says == ""; n++ {
		var v uint64
		if v, says = c.get(t, "orders"); says == "" {
			if v != last+1 {
				t.Fatalf("%d after %d", v, last)
			}
			last = v
		}
		other.must(t, "id")
	}
	if n < 20 || n > 200 {
		t.Errorf("%d values came from the blocks at hand", n)
	}
	if !strings.HasPrefix(says, "SERVER_ERROR sequence orders: no block for ") {
		t.Errorf("the refusal is %q", says)
	}
	other.must(t, "id")
	thaw()
	await(t, "values come again", func() bool {
		v, says := c.get(t, "orders")
		if says == "" && v <= last {
			t.Fatalf("%d after %d", v, last)
		}
		return says == ""
	})
	p.end(t, syscall.SIGTERM)
}
