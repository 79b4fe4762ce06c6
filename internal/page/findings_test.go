package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	scripts "github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// TestFindings: each leads to a heading of the runbook that the daemon serves, on the page and in plain text too.
func TestFindings(t *testing.T) {
	tested, there := map[string]bool{}, headings(t)
	find := func(changes ...string) (string, error) {
		v := healthy()
		h := past(&v)
		for _, change := range changes {
			if err := scripts.Set(&v, change); err != nil {
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
