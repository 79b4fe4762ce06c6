package page

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// with changes what stands in a view at a path, such as "Lanes.0.State=degraded". No text is the zero value; the index
// behind the last one is one more.
func with(view *View, change string) error {
	path, text, _ := strings.Cut(change, "=")
	v := reflect.ValueOf(view).Elem()
	for name := range strings.SplitSeq(path, ".") {
		switch v = reflect.Indirect(v); v.Kind() {
		case reflect.Slice, reflect.Array:
			i, err := strconv.Atoi(name)
			if err != nil {
				return err
			}
			if i == v.Len() {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			}
			v = v.Index(i)
		default:
			v = v.FieldByName(name)
		}
	}
	if text == "" {
		v.SetZero()
		return nil
	}
	var err error
	switch p := v.Addr().Interface().(type) {
	case *string:
		*p = text
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	case *time.Time:
		*p, err = time.Parse(time.RFC3339, text)
	default:
		_, err = fmt.Sscan(text, p)
	}
	return err
}

// TestFindings: each leads to a heading of the runbook that the daemon serves, on the page and in plain text too.
func TestFindings(t *testing.T) {
	tested, there := map[string]bool{}, headings(t)
	find := func(changes ...string) (string, error) {
		v := healthy()
		h := past(&v)
		for _, change := range changes {
			if err := with(&v, change); err != nil {
				return change, err
			}
		}
		var said []string
		found, _ := findings(&v, h.all(noon))
		for _, f := range found {
			tested[f.rule] = true
			said = append(said, fmt.Sprintf("%s [%s] %s", f.Level, f.rule, f.What), "- "+f.Means, "- "+f.Do, "- "+f.Command)
			if to := anchor(f.Entry); !there[to] ||
				!strings.Contains(get(v, h, "/", browser).Body.String(), `href="runbook#`+to+`"`) ||
				!strings.Contains(get(v, h, "/", "").Body.String(), "runbook#"+to) {
				t.Errorf("%q leads to %q, which is no heading, or not shown", f.What, f.Entry)
			}
		}
		return strings.Join(said, "\n"), nil
	}
	steps.Run(t, "testdata/findings.txt", func(*testing.T) steps.Calls { return steps.Calls{"with": find} })
	for _, r := range rules {
		if !tested[r.name] || !there[anchor(entries[r.name])] {
			t.Errorf("no finding is of %s, or it leads to %q, which is no heading", r.name, entries[r.name])
		}
	}
}

// TestNothingIsWrong, and it is said.
func TestNothingIsWrong(t *testing.T) {
	v := healthy()
	h := past(&v)
	if got, more := findings(&v, h.all(noon)); len(got) != 0 || more != 0 {
		t.Errorf("%+v", got)
	}
	for _, accept := range []string{"", browser} {
		if !strings.Contains(get(v, h, "/", accept).Body.String(), "Nothing is wrong.") {
			t.Errorf("Accept: %q: it is not said", accept)
		}
	}
}

// TestTheWorstIsFirst, and what is left out is counted.
func TestTheWorstIsFirst(t *testing.T) {
	v := healthy()
	h := past(&v)
	v.Troubles[LogDropped]++
	v.Troubles[HTTPRefused]++
	v.NotReady = "lease expired"
	for i := range maxFindings {
		v.Alarms = append(v.Alarms, Alarm{"worker_id", number(uint64(i))})
	}
	got, more := findings(&v, h.all(noon))
	if len(got) != maxFindings || more != 3 || !strings.HasPrefix(got[0].What, "No ids") || got[0].Level != Urgent {
		t.Errorf("%d findings and %d more, the first %q", len(got), more, got[0].What)
	}
	v.Alarms = nil
	v.Troubles[ClockBehind]++ // more urgent than what an earlier rule finds
	got, _ = findings(&v, h.all(noon))
	if !slices.IsSortedFunc(got, func(a, b Finding) int { return int(a.Level - b.Level) }) || len(got) != 4 {
		t.Errorf("%+v", got)
	}
	for _, accept := range []string{"", browser} {
		body := get(v, h, "/", accept).Body.String()
		if strings.Contains(body, "Nothing is wrong") ||
			strings.Index(body, "No ids are issued") > strings.Index(body, "The HTTP port refused") {
			t.Errorf("Accept: %q: the order is another one", accept)
		}
	}
}

// TestManyNamesHideNothing: when the store of 10,000 sequences is away, what else is wrong is shown too.
func TestManyNamesHideNothing(t *testing.T) {
	v := healthy()
	h := past(&v)
	v.Names = nil
	for i := range 5000 {
		name := "n" + number(uint64(i))
		v.Names = append(v.Names, Name{Name: name, Kind: "sequence", Refusal: name + ": no block", Sequence: new(Sequence)},
			Name{Name: name, Kind: "sequence", Sequence: &Sequence{DaysLeft: 9}})
	}
	v.Alarms = []Alarm{{"worker_id", "10.0.0.9 has 501"}}
	v.Troubles[HTTPRefused]++
	got, more := findings(&v, h.all(noon))
	has := func(what string) bool {
		return slices.ContainsFunc(got, func(f Finding) bool { return strings.HasPrefix(f.What, what) })
	}
	for _, what := range []string{"n0 issues nothing", "Another daemon has a worker id", "4,997 more names issue nothing",
		"The sequence n2 ends", "4,997 more sequences end within 30 days", "The HTTP port refused"} {
		if !has(what) {
			t.Errorf("nothing says %q", what)
		}
	}
	if more != 0 {
		t.Errorf("%d findings are left out", more)
	}
}

// TestWhatIsOverIsNotFound: a trouble of the last minute is gone after it, one of the last ten minutes
// after those; and before the first sample nothing is known to have happened.
func TestWhatIsOverIsNotFound(t *testing.T) {
	for _, c := range []struct {
		of    Trouble
		after time.Duration
	}{{HTTPRefused, time.Minute}, {LogDropped, Span}} {
		v := healthy()
		h := past(&v)
		v.Troubles[c.of] = 5
		for at := time.Duration(0); at < c.after+2*Every; at += Every {
			v.Now, v.At = noon.Add(at), noon.Add(at)
			found, _ := findings(&v, h.all(v.Now))
			if (len(found) == 1) != (at < c.after) {
				t.Fatalf("after %v: %d findings", at, len(found))
			}
			h.add(v.Sample)
		}
	}
	v := healthy()
	v.Troubles[HTTPRefused] = 5
	if found, _ := findings(&v, nil); len(found) != 0 {
		t.Errorf("without a history: %+v", found)
	}
}
