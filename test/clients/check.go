//go:build linux

package main

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The default layout: 41 bits of milliseconds since 2015, 10 of worker id, 12 of sequence. Written
// out here once more, since a check that used the daemon's own arithmetic would agree with its
// mistakes.
const (
	epoch        = 1420070400000 // 2015-01-01T00:00:00Z, Unix ms
	workerBits   = 10
	sequenceBits = 12
	wantWorker   = 1
	clockSlack   = 2 * time.Second // the id clock may run ahead of the wall clock by a second, and be slewed
	minGets      = 5               // "several gets"
	minMulti     = 2               // values in a multi-get
)

// A transcript is what a set-up printed, read and checked line by line.
type transcript struct {
	did     map[string]int    // how often it did what setup.does has
	values  map[string]string // statistics by name
	version string
	last    uint64
}

// A checker checks the transcripts of one run. It remembers every id, so that no two set-ups may
// get the same one.
type checker struct {
	seen  map[uint64]string // id -> the set-up that got it
	count int64             // the last value of the sequence orders that anybody got
}

// check reads what a set-up printed between two moments and says in one line what it did, or the
// first thing that is wrong.
func (c *checker) check(s *setup, output string, began, ended time.Time) (string, error) {
	t := transcript{did: map[string]int{}, values: map[string]string{}}
	lines := bufio.NewScanner(strings.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		if err := c.line(s, &t, fields, began, ended); err != nil {
			return "", fmt.Errorf("%q: %w", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	if err := t.complete(s); err != nil {
		return "", err
	}
	return t.summary(), nil
}

func (c *checker) line(s *setup, t *transcript, fields []string, began, ended time.Time) error {
	verb, rest := fields[0], fields[1:]
	t.did[map[string]string{"gets": "cas", "stat": "stats", "group": "groups"}[verb]]++
	t.did[verb]++
	switch {
	case verb == "get" && len(rest) == 1:
		return c.ids(s, t, rest, began, ended)
	case verb == "gets" && len(rest) == 2:
		t.did["get"]++
		if cas, err := strconv.ParseUint(rest[1], 10, 64); err != nil || cas == 0 {
			return fmt.Errorf("cas is not a positive number")
		}
		if rest[0] != rest[1] {
			return fmt.Errorf("the cas of an id is not the id")
		}
		return c.ids(s, t, rest[:1], began, ended)
	case verb == "multi" && len(rest) >= minMulti:
		return c.ids(s, t, rest, began, ended)
	case verb == "incr" && len(rest) == 1:
		return c.values(rest[0], "1")
	case verb == "incrby" && len(rest) == 2:
		return c.values(rest[0], rest[1])
	case verb == "exec" && len(rest) == 2:
		if err := c.values(rest[1], "1"); err != nil {
			return err
		}
		return c.ids(s, t, rest[:1], began, ended)
	case verb == "version" && len(rest) == 1:
		t.version = rest[0]
		return numericVersion(rest[0])
	case verb == "stat" && len(rest) >= 1:
		t.values[rest[0]] = strings.Join(rest[1:], " ")
		return nil
	case verb == "health" && len(rest) == 2:
		if rest[1] != "SERVING" {
			return fmt.Errorf("the daemon is not well")
		}
		return nil
	case verb == "group" && len(rest) == 2:
		if n, err := strconv.Atoi(rest[1]); err != nil || n < 1 {
			return fmt.Errorf("the group is empty")
		}
		return nil
	}
	return fmt.Errorf("not a line of the format")
}

// ids checks the values of one answer. A client may return the values of a multi-get in an order of
// its own, so they are only compared with those of earlier answers.
func (c *checker) ids(s *setup, t *transcript, values []string, began, ended time.Time) error {
	ids := make([]uint64, len(values))
	for i, v := range values {
		id, err := strconv.ParseUint(v, 10, 63)
		if err != nil {
			return fmt.Errorf("%s is not an id: %w", v, err)
		}
		ids[i] = id
	}
	slices.Sort(ids)
	for _, id := range ids {
		if by, ok := c.seen[id]; ok {
			return fmt.Errorf("id %d was given before, to %s", id, by)
		}
		c.seen[id] = s.String()
		if id <= t.last {
			return fmt.Errorf("id %d is not greater than %d, which the same client got before", id, t.last)
		}
		t.last = id
		if worker := id >> sequenceBits & (1<<workerBits - 1); worker != wantWorker {
			return fmt.Errorf("id %d is of worker id %d, not %d", id, worker, wantWorker)
		}
		made := time.UnixMilli(int64(id>>(workerBits+sequenceBits)) + epoch)
		if made.Before(began.Add(-clockSlack)) || made.After(ended.Add(clockSlack)) {
			return fmt.Errorf("id %d is of %s, but was asked for at %s", id, made.UTC(), began.UTC())
		}
	}
	return nil
}

// values checks the last of n values of the sequence orders: nobody has had any of them before.
func (c *checker) values(last, n string) error {
	v, err := strconv.ParseInt(last, 10, 64)
	if err != nil {
		return fmt.Errorf("%s is not a value of a sequence: %w", last, err)
	}
	count, err := strconv.ParseInt(n, 10, 32)
	if err != nil || count < 1 {
		return fmt.Errorf("%s is not a number of values", n)
	}
	if v-count < c.count {
		return fmt.Errorf("%d values up to %d: somebody had %d before", count, v, c.count)
	}
	c.count = v
	return nil
}

// complete says what a set-up should have done and did not.
func (t *transcript) complete(s *setup) error {
	for what := range strings.FieldsSeq(s.does) {
		switch n := t.did[what]; {
		case what == "get" && n < minGets:
			return fmt.Errorf("%d gets, want at least %d", n, minGets)
		case n == 0, what == "incr" && n < 2:
			return fmt.Errorf("it did no %s", what)
		}
	}
	names := s.shows
	if names == "" && strings.Contains(s.does, "stats") {
		names = usualStats
	}
	for name := range strings.FieldsSeq(names) {
		if n, err := t.number(name); err != nil {
			return err
		} else if n <= 0 {
			return fmt.Errorf("statistic %s is %q, want a positive number", name, t.values[name])
		}
	}
	for name := range strings.FieldsSeq(s.lists) {
		if _, err := t.number(name); err != nil {
			return err
		}
	}
	if v := t.values["version"]; v != "" && t.version != "" && v != t.version {
		return fmt.Errorf("version says %s, stats says %s", t.version, v)
	}
	return nil
}

// number returns a statistic.
func (t *transcript) number(name string) (float64, error) {
	value, ok := t.values[name]
	if !ok {
		return 0, fmt.Errorf("statistic %s is missing", name)
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return 0, fmt.Errorf("statistic %s is %q, not a number", name, value)
	}
	return n, nil
}

// usualStats are positive after a few gets, whatever the client.
const usualStats = "pid curr_connections total_connections cmd_get get_hits"

func (t *transcript) summary() string {
	var did []string
	for pair := range strings.SplitSeq("get gets, multi multi-gets, incr incrs, incrby ranges, exec transactions, "+
		"version version, stats stats, groups stats groups, health health checks", ", ") {
		word, what, _ := strings.Cut(pair, " ")
		if n := t.did[word]; n > 0 {
			did = append(did, fmt.Sprintf("%d %s", n, what))
		}
	}
	return strings.Join(did, ", ")
}

// numericVersion accepts what libmemcached, PHP, Perl and Node clients can parse: three numbers.
func numericVersion(version string) error {
	parts := strings.Split(version, ".")
	if len(parts) != 3 {
		return fmt.Errorf("version is not N.N.N")
	}
	for _, p := range parts {
		if _, err := strconv.ParseUint(p, 10, 16); err != nil {
			return fmt.Errorf("version is not N.N.N")
		}
	}
	return nil
}
