package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/front"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// raw is a flag's text, kept as it was given so that one table parses flags and environment alike. A
// flag whose last text is empty is not set, as a variable is not.
type raw struct {
	bool, set  bool
	list       bool // values are collected, one a line
	once       bool // a second value that is another one is a mistake
	value, def string
}

func (r *raw) String() string   { return r.value }
func (r *raw) IsBoolFlag() bool { return r.bool }

func (r *raw) Set(v string) error {
	switch again := r.set && v != ""; {
	case again && r.list:
		v = r.value + "\n" + v
	case again && r.once && v != r.value:
		return fmt.Errorf("%s was given before: one flag has them all, such as 1,5,9", r.value)
	}
	if r.value, r.set = v, v != ""; !r.set {
		r.value = r.def
	}
	return nil
}

// A value is where the text of a setting goes.
type value struct {
	set   func(v string) error
	words []string // that shells offer; others may be right
}

// ignored is the value of a setting that says nothing here.
var ignored = value{set: func(string) error { return nil }}

func text(field *string, words ...string) value {
	return value{func(v string) error {
		*field = v
		return nil
	}, words}
}

func number(field *int) value {
	return value{set: func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil {
			return errors.New("a whole number is allowed")
		}
		*field = n
		return nil
	}}
}

func boolean(field *bool) value {
	return value{set: func(v string) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return errors.New("true or false allowed")
		}
		*field = b
		return nil
	}}
}

// size also takes a unit: k, m, g, t or KiB, MiB, GiB, TiB, all powers of 1,024, in either case.
func size(field *int64) value {
	return value{set: func(v string) error {
		lower := strings.ToLower(v)
		digits := strings.TrimRight(lower, "kmgtib")
		shift, ok := map[string]int{"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[strings.TrimSuffix(lower[len(digits):], "ib")]
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || !ok || lower == digits+"ib" || n < 0 || n > math.MaxInt64>>shift {
			return errors.New("a number of bytes such as 67108864, 64MiB or 256m is allowed")
		}
		*field = n << shift
		return nil
	}}
}

// sizeText writes bytes such that size reads them.
func sizeText(n int64) string {
	if n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n, 10)
}

// positive is a duration of which 0 would be taken for "not set".
func positive(field *time.Duration) value {
	return value{set: func(v string) error {
		err := duration(field).set(v)
		if err == nil && *field <= 0 {
			return errors.New("more than 0 is allowed")
		}
		return err
	}}
}

// brief writes a duration without seconds that are 0.
func brief(d time.Duration) string { return strings.Replace(d.String(), "m0s", "m", 1) }

// duration also takes a plain number: seconds.
func duration(field *time.Duration) value {
	return value{set: func(v string) error {
		d, err := time.ParseDuration(v)
		if s, e := strconv.ParseUint(v, 10, 31); e == nil {
			d, err = time.Duration(s)*time.Second, nil
		}
		if err != nil {
			return errors.New("a duration such as 500ms, 10s, 5m or a number of seconds is allowed")
		}
		*field = d
		return nil
	}}
}

// setSpin takes auto, off or a duration.
func (o *options) setSpin(v string) error {
	switch v {
	case "auto":
		o.Spin = front.SpinAuto
	case "off":
		o.Spin = 0
	default:
		if d, err := time.ParseDuration(v); err == nil && d >= 0 {
			o.Spin = d
			return nil
		}
		return errors.New("auto, off or a duration such as 20us allowed")
	}
	return nil
}

func oneOf(field *string, names ...string) value {
	return value{func(v string) error {
		if !slices.Contains(names, v) {
			return errors.New(problem.Allowed(names...))
		}
		*field = v
		return nil
	}, names}
}

// either is a choice of two words that mean true and false.
func either(field *bool, yes, no string) value {
	return value{func(v string) error {
		if v != yes && v != no {
			return errors.New(problem.Allowed(yes, no))
		}
		*field = v == yes
		return nil
	}, []string{yes, no}}
}

// maxLanes bounds a range of worker ids: a slip of the finger should not make millions of lanes.
const maxLanes = 1024

func (o *options) setWorkerIDs(v string) error {
	if strings.HasPrefix(v, ordinalPrefix) {
		return o.setOrdinal(v)
	}
	for part := range strings.SplitSeq(v, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.ParseUint(from, 10, 32)
		hi, err2 := strconv.ParseUint(to, 10, 32)
		switch {
		case err1 != nil || err2 != nil || lo > hi:
			return errors.New("a worker id such as 7, a range such as 1-4, a list such as 1,5,9 or ordinal is allowed")
		case hi-lo >= maxLanes:
			return fmt.Errorf("a range has at most %d worker ids", maxLanes)
		}
		for id := lo; id <= hi; id++ {
			o.WorkerIDs = append(o.WorkerIDs, id)
		}
	}
	return nil
}

func (o *options) setSockMode(v string) error {
	mode, err := strconv.ParseUint(v, 8, 32)
	if err != nil || mode > 0o777 {
		return errors.New("octal permissions, 0 to 0777, allowed")
	}
	o.SockMode = fs.FileMode(mode)
	return nil
}

func (o *options) setLogLevel(v string) error {
	level, ok := map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
		"error": slog.LevelError, "panic": levelPanic, "fatal": levelFatal,
	}[v]
	if !ok {
		return errors.New("debug, info, warn, warning, error, fatal or panic allowed")
	}
	o.logLevel = level
	return nil
}
