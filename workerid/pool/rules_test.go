package pool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

var verdicts = map[Verdict]string{Held: "held", Taken: "taken", Copied: "copied", RolledBack: "rolled back"}

// said is what was read and how it is written, or that it cannot be read: a guess could be a lower mark.
func said[T fmt.Stringer](read T, err error) (string, error) {
	if errors.Is(err, ErrUnreadable) {
		return "unreadable", nil
	}
	return fmt.Sprintf("%q: %s", read, strings.ReplaceAll(fmt.Sprintf("%#v", read), "pool.", "")), err
}

// TestRules: testdata/rules.txt has what the rules say of a pool whose lease is 10 s, at 50 s.
func TestRules(t *testing.T) {
	steps.Run(t, "testdata/rules.txt", func(t *testing.T) steps.Calls {
		rules := Rules{W: 5 * time.Second, MaxSkew: 2000}
		meta := Meta{Epoch: "e", Floor: 20_000, Fingerprint: "f", Lease: 10_000, Epsilon: 5000, Min: 10, Max: 19}
		now := Moment{Boot: time.Hour, ID: 50_000, Wall: 50_000}
		record := func(text string) Record {
			r, err := ParseRecord(text)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		anns := record("1 60000 30000 c.2 ann")
		unanswered := Sent{Worker: 12, Record: record("1 62000 30000 c.3 ann"), Epoch: "f"}
		order := func(owner string, marks []int64) []uint64 {
			records, workers := map[uint64]string{}, []uint64(nil)
			for i, mark := range marks {
				w := meta.Min + uint64(i)
				records[w], workers = Record{Mark: mark, Lo: 1, Token: "t"}.String(), append(workers, w)
			}
			rules.Order(workers, records, meta, owner, now)
			return workers
		}
		return steps.Calls{
			// record TEXT, meta TEXT and presence TEXT are read, and are written in the same way. A text may be quoted as in Go
			"record": func(text string) (string, error) {
				if quoted, err := strconv.Unquote(text); err == nil {
					text = quoted
				}
				return said(ParseRecord(text))
			},
			"meta":     func(text string) (string, error) { return said(ParseMeta(text)) },
			"presence": func(text string) (string, error) { return said(ParsePresence(text)) },
			"floor":    func(ms int64) { meta.Floor = ms },
			"id":       func(ms int64) { now.ID = ms },
			"wall":     func(ms int64) { now.Wall = ms },
			// judge RECORD: what it says to ann, whose write of c.3 was not answered, and the epoch of the write that was found
			"judge": func(text string) string {
				v, found := rules.Judge(Holding{Owner: "ann", Last: anns, Epoch: "e", Unanswered: []Sent{unanswered},
					Mine: func(token string) bool { return token[0] == 'c' }}, text)
				if found == (Sent{}) {
					return verdicts[v]
				}
				return fmt.Sprintf("%s: %s in epoch %s", verdicts[v], found.Record, found.Epoch)
			},
			"returns": func(epoch string) bool { return rules.Returns(Sent{Epoch: epoch}, meta) },
			// vacant BEFORE AFTER PRESENCE
			"vacant":  func(before, after, present string) bool { return rules.Vacant(before, after, present, meta, now) },
			"take":    func(text string) string { return rules.Take(record(text), meta, "ann", "c.9", now).String() },
			"extend":  func(text string) string { return rules.Extend(record(text), meta, "c.9", now).String() },
			"release": func(text string, last int64) string { return rules.Release(record(text), last, "c.9").String() },
			// raise HI: the meta then
			"raise": func(hi int64) string {
				meta = rules.Raise(meta, hi, "e2", now)
				return meta.String()
			},
			"raised":  func(hi int64) bool { return rules.Raised(meta, hi, now) },
			"covered": func(text string, hi int64) bool { return rules.Covered(meta, text, hi) },
			// order OWNER MARK ...: worker ids from 10 on; firsts MARK ...: with which of them 100 owners begin
			"order": func(owner string, marks ...int64) string { return fmt.Sprint(order(owner, marks)) },
			"firsts": func(marks ...int64) string {
				firsts := map[uint64]bool{}
				for owner := range 100 {
					firsts[order(string(rune('a'+owner)), marks)[0]] = true
				}
				return fmt.Sprint(slices.Sorted(maps.Keys(firsts)))
			},
			// skew BEFORE AFTER ...: of records that were read 3 s apart
			"skew": func(pairs ...string) string {
				before, after := map[uint64]string{}, map[uint64]string{}
				for i, text := range pairs {
					map[bool]map[uint64]string{true: before, false: after}[i%2 == 0][uint64(i/2)] = text
				}
				ahead, holders, err := rules.Skew(before, after, meta, 3*time.Second, now)
				return fmt.Sprintf("%v ahead, %d holders, %v", ahead, holders, err)
			},
			"watch":   func(heartbeat, timeout time.Duration) time.Duration { return WatchOf(heartbeat, timeout) },
			"watches": func() string { return fmt.Sprint(rules.Watch(true), rules.Watch(false)) },
			"fresh":   func(since time.Duration) bool { return rules.Fresh(since) },
		}
	})
}
