package kinds

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// TestDefinitions: what a definition says of itself means the same.
func TestDefinitions(t *testing.T) {
	steps.Run(t, "testdata/definitions.txt", func(t *testing.T) steps.Calls {
		var l List
		l.Check = func(d Definition) error {
			if d.Name == "" || d.Kind == ULID || d.Strict {
				return fmt.Errorf("no %s here", d.Name)
			}
			return nil
		}
		lines := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t")
		return steps.Calls{
			"parse": func(line string) (string, error) {
				d, err := Parse(line)
				if err != nil {
					return "", err
				}
				if again, _ := Parse(d.String()); again != d {
					t.Errorf("%q: %+v", d, again)
				}
				fields, err := json.Marshal(d)
				return d.String() + "\n" + string(fields), err
			},
			"add":  func(text string) error { return l.Add(lines.Replace(text)) },
			"file": func(text string) error { return l.AddFile([]byte(lines.Replace(text))) },
			"names": func() (names []string) {
				for _, d := range l.All() {
					names = append(names, d.Name)
				}
				return names
			},
		}
	})
}

func TestReservedNames(t *testing.T) {
	for name, want := range map[string]bool{"id": true, "0": true, "0123456789": true, "": false, "ID": false, "1a": false,
		"a1": false, "/": false, ":": false, "ids": false} {
		if Reserved([]byte(name)) != want {
			t.Errorf("%q: not %v", name, want)
		}
	}
}

func TestAListHasALimit(t *testing.T) {
	text := func(n int) []byte {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "name%d uuid4\n", i)
		}
		return []byte(b.String())
	}
	var full List
	if err := full.AddFile(text(MaxNames)); err != nil || len(full.All()) != MaxNames {
		t.Errorf("%d names, %v", len(full.All()), err)
	}
	var l List
	if err := l.AddFile(text(MaxNames + maxProblems + 7)); err == nil || len(l.All()) != MaxNames ||
		!strings.HasPrefix(err.Error(), "line 10001: more than 10000 names\n") ||
		!strings.HasSuffix(err.Error(), "\nline 10100: more than 10000 names\nand 7 more lines are wrong") {
		t.Errorf("%d names, %v", len(l.All()), err)
	}
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "names")
	if _, err := ReadFile(path); !os.IsNotExist(err) {
		t.Error(err)
	}
	for size, fits := range map[int]bool{0: true, MaxFile: true, MaxFile + 1: false} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := ReadFile(path); (err == nil) != fits || fits && len(text) != size {
			t.Errorf("%d bytes: %d, %v", size, len(text), err)
		}
	}
}

// FuzzParse: no line makes Parse panic. A definition's String is a line that means the same, and its
// numbers are such that a sequence has a first value.
func FuzzParse(f *testing.F) {
	f.Add("orders sequence start=1 step=2 offset=1 max=99 order=strict batch=5")
	f.Add("old snowflake layout=instagram")
	f.Add("{a}:b uuid7")
	f.Add("tx snowflake layout=sonyflake order=strict node=9")
	f.Add("tx snowflake layout=epoch:0,node:3,time:41,sequence:12 order=strict node=5 ahead=2s")
	f.Add("id sequence start=9223372036854775807 step=9223372036854775807 offset=1")
	f.Fuzz(func(t *testing.T, line string) {
		d, err := Parse(line)
		if err != nil {
			if d != (Definition{}) && !d.Timed() || err.Error() == "" {
				t.Errorf("%q: %+v, %q", line, d, err)
			}
			return
		}
		if again, err := Parse(d.String()); err != nil || again != d {
			t.Errorf("%q: %q becomes %+v, %v", line, d, again, err)
		}
		if !d.Recorded() {
			if (d.Definition != counter.Definition{Name: d.Name}) {
				t.Errorf("%q: %+v", line, d)
			}
			return
		}
		first := d.First()
		if first < d.Start || first > d.Max || d.Max > MaxValue || first-d.Start >= d.Step ||
			first%d.Step != d.Offset%d.Step || d.Offset < 1 || d.Offset > d.Step {
			t.Errorf("%q: first %d of %+v", line, first, d)
		}
	})
}

// What is right with a snowflake with order=strict is said again in the same words.
func TestStrictTimestamps(t *testing.T) {
	for _, line := range []string{
		"tx snowflake layout=katsubushi order=strict node=1023",
		"tx snowflake layout=sonyflake order=strict node=0 ahead=2.5s",
		"tx snowflake layout=time:44,sequence:18 order=strict",
		"tx snowflake layout=time:40,node:10,sequence:13 order=strict node=5",
		"tx snowflake layout=node:10,time:41,sequence:12,epoch:1420070400000 order=strict node=5",
		"tx snowflake layout=time:33,sequence:16,node:12,unit:1s order=strict node=5",
	} {
		d, err := Parse(line)
		if err != nil || d.String() != line || !d.Recorded() || d.Check() != nil || Declared(d.Definition) != d {
			t.Errorf("%s: %+v, %v", line, d, err)
		}
		v := IDOf(d.Definition, 1<<40+5)
		if l := IDLayout(d.Definition); l.Decompose(v).Worker != d.Time.Node {
			t.Errorf("%s: %d", line, v)
		}
		for _, id := range []uint64{v, v - 1, v + 1, v - 70_000, v + 70_000} {
			got := ValueOf(d.Definition, id)
			if IDOf(d.Definition, got) < id || IDOf(d.Definition, got-1) >= id {
				t.Errorf("%s: the first position from %d on is not %d", line, id, got)
			}
		}
	}
	front, _ := Parse("tx snowflake layout=node:10,time:41,sequence:12 order=strict node=5")
	for id, want := range map[uint64]uint64{4<<53 | 9<<40: front.Start, 6 << 53: front.Max + 1, 5<<53 | 77: 77} {
		if got := ValueOf(front.Definition, id); got != want {
			t.Errorf("the node in front: %d is at %d, not %d", id, got, want)
		}
	}
}
