package kinds

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
)

func named(name, kind, layout string) Definition {
	return Definition{counter.Definition{Name: name}, kind, layout}
}

func TestDefinitions(t *testing.T) {
	sequence := func(change func(*Definition)) Definition {
		d := Declared(counter.Definition{Name: "orders", Start: 1, Step: 1, Offset: 1, Max: math.MaxInt64})
		change(&d)
		return d
	}
	for _, c := range []struct {
		line, canonical string
		want            Definition
	}{
		{"a uuid4", "a uuid4", named("a", UUID4, "")},
		{"  Az09_.:{}-\tuuid7 ", "Az09_.:{}- uuid7", named("Az09_.:{}-", UUID7, "")},
		{"1a ulid", "1a ulid", named("1a", ULID, "")},
		{"ID objectid", "ID objectid", named("ID", ObjectID, "")},
		{"x snowflake", "x snowflake", named("x", Snowflake, "")},
		{"old snowflake layout=instagram", "old snowflake layout=instagram",
			named("old", Snowflake, "instagram")},
		{"orders sequence", "orders sequence start=1", sequence(func(*Definition) {})},
		{"orders sequence order=free step=1 offset=1 max=9223372036854775807", "orders sequence start=1",
			sequence(func(*Definition) {})},
		{"orders sequence order=strict offset=2 step=2 start=1", "orders sequence start=1 step=2 offset=2 order=strict",
			sequence(func(d *Definition) { d.Step, d.Offset, d.Strict = 2, 2, true })},
		{"orders sequence start=1000 step=10", "orders sequence start=1000 step=10 offset=10", // the first value is start
			sequence(func(d *Definition) { d.Start, d.Step, d.Offset = 1000, 10, 10 })},
		{"orders sequence rate=10000000 on-loss=continue", "orders sequence start=1 rate=10000000",
			Declared(counter.Definition{Name: "orders", Start: 1, Step: 1, Offset: 1, Max: MaxValue, Rate: counter.MaxRate})},
		{"orders sequence on-loss=refuse", "orders sequence start=1 on-loss=refuse",
			Declared(counter.Definition{Name: "orders", Start: 1, Step: 1, Offset: 1, Max: MaxValue, RefuseLoss: true})},
		{"orders sequence start=7 max=7 batch=10000000", "orders sequence start=7 max=7 batch=10000000",
			sequence(func(d *Definition) { d.Start, d.Max, d.Batch = 7, 7, counter.MaxBatch })},
		{"orders sequence start=9223372036854775807 step=9223372036854775807",
			"orders sequence start=9223372036854775807 step=9223372036854775807 offset=9223372036854775807",
			sequence(func(d *Definition) { d.Start, d.Step, d.Offset = math.MaxInt64, math.MaxInt64, math.MaxInt64 })},
	} {
		got, err := Parse(c.line)
		if err != nil || got != c.want || got.String() != c.canonical {
			t.Errorf("%q: %+v, %v\n%s", c.line, got, err, got)
		}
		if again, err := Parse(c.canonical); err != nil || again != c.want {
			t.Errorf("%q: %+v, %v", c.canonical, again, err)
		}
	}
}

func TestAllThatIsWrongWithALine(t *testing.T) {
	const allowed = ": 1 to 64 of the characters A-Z a-z 0-9 _ . : { } - are allowed"
	const kinds = "snowflake, sequence, uuid4, uuid7, ulid, objectid allowed"
	long := strings.Repeat("x", MaxName+1)
	for _, c := range []struct {
		line string
		want []string
	}{
		{" ", []string{"a name and a kind are needed, such as: orders sequence start=1"}},
		{"orders", []string{`"orders": a kind must follow the name: ` + kinds}},
		{long + " uuid4", []string{fmt.Sprintf("the name %q", long) + allowed}},
		{"a/b Sequence", []string{`the name "a/b"` + allowed, `"Sequence" is not a kind: ` + kinds}},
		{"été uuid4", []string{`the name "été"` + allowed}},
		{"id uuid4", []string{`the name "id": id, and names of digits alone, stand for the default kind`}},
		{"0123 uuid4", []string{`the name "0123": id, and names of digits alone, stand for the default kind`}},
		{"_other uuid4", []string{`the name "_other": /metrics uses it for the names beyond the first thousand`}},
		{"a uuid4 start=1 x", []string{`"start=1": uuid4 has no options`, `"x": uuid4 has no options`}},
		{"a snowflake layout=mine", []string{`"layout=mine": katsubushi, twitter, instagram, sonyflake, js53 allowed, or ` +
			`with order=strict segments such as time:44,sequence:18 or ` +
			`node:10,time:41,sequence:12,epoch:1420070400000,unit:1ms`}},
		{"a snowflake start=1", []string{`"start=1": snowflake has the options layout= order= node= ahead=`}},
		{"a sequence first=1 order", []string{
			`"first=1": sequence has the options start= step= offset= max= order= batch= rate= on-loss=`,
			`"order": sequence has the options start= step= offset= max= order= batch= rate= on-loss=`}},
		{"id sequence start=0 step=0 offset=0 max=9223372036854775808 order=loose batch=10000001 step=1", []string{
			`the name "id": id, and names of digits alone, stand for the default kind`,
			`"start=0": 1 to 9223372036854775807 allowed`, `"step=0": 1 to 9223372036854775807 allowed`,
			`"offset=0": 1 to 9223372036854775807 allowed`,
			`"max=9223372036854775808": 1 to 9223372036854775807 allowed`, `"order=loose": free or strict allowed`,
			`"batch=10000001": 1 to 10000000 allowed`,
			"step is there twice"}},
		{"a sequence rate=0 on-loss=x",
			[]string{`"rate=0": 1 to 10000000 allowed`, `"on-loss=x": continue or refuse allowed`}},
		{"a sequence rate=1 on-loss=refuse",
			[]string{"rate= and on-loss=refuse: a ceiling is for going on after a loss: one of the two is allowed"}},
		{"a sequence start=-1 step= max=1e3 batch=+5", []string{
			`"start=-1": 1 to 9223372036854775807 allowed`, `"step=": 1 to 9223372036854775807 allowed`,
			`"max=1e3": 1 to 9223372036854775807 allowed`,
			`"batch=+5": 1 to 10000000 allowed`}},
		{"a sequence offset=3 step=2 start=9 max=8",
			[]string{"offset=3: 1 to 2 allowed, the step", "start=9: more than max, 8"}},
		{"a sequence start=2 max=4 step=5 offset=5", []string{"no value from start=2 to max=4 fits step=5 offset=5"}},
		{"a sequence start=9223372036854775806 step=9223372036854775807 offset=9223372036854775805",
			[]string{"no value from start=9223372036854775806 to max=9223372036854775807 fits step=9223372036854775807 " +
				"offset=9223372036854775805"}},
	} {
		d, err := Parse(c.line)
		if err == nil || err.Error() != strings.Join(c.want, "\n") || d != (Definition{}) {
			t.Errorf("%q: %+v\n%v\nwant\n%s", c.line, d, err, strings.Join(c.want, "\n"))
		}
	}
}

func TestReservedNames(t *testing.T) {
	for name, want := range map[string]bool{"id": true, "0": true, "0123456789": true, "": false, "ID": false, "1a": false,
		"a1": false, "/": false, ":": false, "ids": false} {
		if Reserved([]byte(name)) != want {
			t.Errorf("%q: not %v", name, want)
		}
	}
}

func TestAListOfFlagsAndAFile(t *testing.T) {
	var l List
	l.Check = func(d Definition) error {
		if d.Kind == ULID {
			return errors.New("no ulids here")
		}
		return nil
	}
	if err := l.Add("a uuid4; b uuid7 # not; a comment\n\n c sequence"); err == nil ||
		err.Error() != `"a comment": "comment" is not a kind: snowflake, sequence, uuid4, uuid7, ulid, objectid allowed`+"\n"+
			`"a comment": "a" is declared already, by "a uuid4"` {
		t.Error(err)
	}
	err := l.AddFile([]byte("# names\n\nd objectid # the fourth\r\n\tb uuid7\ne ulid\nf uuid5 x\n  \nf uuid4\ng " +
		"sequence step=0 start=0\nh uuid4"))
	want := `line 4: "b" is declared already, by "b uuid7"
line 5: no ulids here
line 6: "uuid5" is not a kind: snowflake, sequence, uuid4, uuid7, ulid, objectid allowed
line 8: "f" is declared already, by line 6
line 9: "step=0": 1 to 9223372036854775807 allowed
line 9: "start=0": 1 to 9223372036854775807 allowed`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	var names []string
	for _, d := range l.All() {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "c", "d", "h"}) {
		t.Error(names)
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
			if d != (Definition{}) || err.Error() == "" {
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

// A snowflake with order=strict: all that is wrong with it at once, and what is right is said again in the same words.
func TestStrictTimestamps(t *testing.T) {
	for line, want := range map[string][]string{
		"tx snowflake order=strict ahead=9s":                                 {"1s to 5s", "layout= is needed", "node= is"},
		"tx snowflake layout=katsubushi order=strict node=1024":              {"node=1024: layout katsubushi has 0 to 1023"},
		"tx snowflake layout=katsubushi node=1 ahead=2s":                     {"node= is for order", "ahead= is for order"},
		"tx snowflake layout=katsubushi order=strict node=x":                 {"a worker id of the layout"},
		"tx snowflake layout=twitter order=strict node=9223372036854775808":  {"a worker id of the layout"},
		"tx snowflake layout=none order=strict node=1 ahead=1500u":           {"js53 allowed", "whole milliseconds"},
		"tx snowflake layout=time:44,sequence:18":                            {"segments are for order=strict"},
		"tx snowflake layout=time:44,sequence:18 order=strict node=1":        {"node=1: layout time:44,sequence:18 has 0"},
		"tx snowflake layout=time:44,node:5,sequence:9 order=strict":         {"node= is needed"},
		"tx snowflake layout=time:44,step:2,sequence:9 order=strict node=99": {`9": "step:2": segments such as`},
	} {
		_, err := Parse(line)
		if got := fmt.Sprint(err); strings.Count(got, "\n") != len(want)-1 {
			t.Errorf("%s: not %d lines: %s", line, len(want), got)
		}
		for _, text := range want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, without %q", line, err, text)
			}
		}
	}
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
	same, err := Parse("tx snowflake layout=unit:1ms,time:41,node:10,sequence:12,epoch:1420070400000 order=strict node=5")
	if err != nil || same.Time.Layout != "katsubushi" {
		t.Errorf("%+v, %v", same, err)
	}
	front, _ := Parse("tx snowflake layout=node:10,time:41,sequence:12 order=strict node=5")
	for id, want := range map[uint64]uint64{4<<53 | 9<<40: front.Start, 6 << 53: front.Max + 1, 5<<53 | 77: 77} {
		if got := ValueOf(front.Definition, id); got != want {
			t.Errorf("the node in front: %d is at %d, not %d", id, got, want)
		}
	}
	var list List // a node that cannot be read is nobody's
	list.Check = func(d Definition) error { return fmt.Errorf("%s is checked", d.Name) }
	err = list.Add("a snowflake layout=katsubushi order=strict node=x;b snowflake layout=katsubushi order=strict;" +
		"c snowflake layout=katsubushi order=strict node=0 ahead=9s")
	if says := fmt.Sprint(err); strings.Contains(says, "taken") || strings.Contains(says, "a is checked") ||
		strings.Contains(says, "b is checked") || !strings.Contains(says, "c is checked") || strings.Count(says, "\n") != 3 {
		t.Error(err)
	}
	free, err := Parse("tx snowflake layout=katsubushi order=free")
	if err != nil || free.Recorded() || free.String() != "tx snowflake layout=katsubushi" {
		t.Errorf("%+v, %v", free, err)
	}
}
