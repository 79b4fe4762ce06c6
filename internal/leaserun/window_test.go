package leaserun

import (
	"testing"
	"time"
)

func TestVerdicts(t *testing.T) {
	terms := newTerms(&Config{Margin: time.Second, StopTimeout: 3 * time.Second, Lease: time.Minute})
	w := window{worker: 7, lo: 100_000, hi: 160_000}
	for _, c := range []struct {
		now   int64
		want  verdict
		ready bool
		last  int64
	}{
		{99_999, kill, false, 100_999}, // where a predecessor's ids are
		{100_000, live, false, 101_000},
		{100_999, live, false, 101_999},
		{101_000, live, true, 102_000},
		{155_999, live, true, 156_999},
		{156_000, end, false, 157_000},
		{158_999, end, false, 159_999},
		{159_000, kill, false, 160_000},
		{999_999, kill, false, 160_000}, // the next holder's ids
	} {
		if v, why := terms.judge(w, c.now); v != c.want || (why == "") != (v == live) {
			t.Errorf("at %d: verdict %d (%s), want %d", c.now, v, why, c.want)
		}
		if got := terms.ready(w, c.now); got != c.ready {
			t.Errorf("at %d: ready is %v", c.now, got)
		}
		if got := terms.last(w, c.now); got != c.last {
			t.Errorf("at %d: last is %d, want %d", c.now, got, c.last)
		}
	}
}

// TestGraceIsAPartOfTheLease: a program that takes long to end must not be asked to before anything
// is wrong.
func TestGraceIsAPartOfTheLease(t *testing.T) {
	terms := newTerms(&Config{Margin: time.Second, StopTimeout: time.Hour, Lease: time.Minute})
	if v, _ := terms.judge(window{lo: 0, hi: 60_000}, 60_000-1000-15_001); v != live {
		t.Error("asked to end with more than a quarter of the lease left")
	}
}

func TestValidate(t *testing.T) {
	good := Config{Command: []string{"true"}, Lease: time.Minute, Margin: time.Second, StopTimeout: time.Second}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no command":       func(c *Config) { c.Command = nil },
		"margin too small": func(c *Config) { c.Margin = minMargin - 1 },
		"margin too large": func(c *Config) { c.Margin = c.Lease/4 + 1 },
		"stop timeout":     func(c *Config) { c.StopTimeout = -1 },
	} {
		c := good
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
