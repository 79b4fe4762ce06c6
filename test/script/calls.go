package script

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Calls are functions that a script calls, by name. What does it may stand first: "a reserve 5" is reserve with a and
// 5. They may take strings, numbers, booleans and durations, and variadically more of these; words stand in quotes
// where they have spaces. Other things are named in maps, which stand among the functions under any name. One []string
// is all words as they are. A line is written for each line of the results; nil and "" are none.
type Calls map[string]any

var words = regexp.MustCompile(`('[^']*'|[^' ])+`)

// Do makes the call that words are, and more's besides, if there is one.
func (c Calls) Do(t testing.TB, line []string, more ...func() string) string {
	var b strings.Builder
	results := c.call(t, strings.Join(line, " "))
	for _, besides := range more {
		results = append(results, besides())
	}
	for _, result := range results {
		if err, ok := result.(error); ok {
			result = fmt.Sprint("error: ", err)
		}
		if result == nil {
			continue
		}
		for said := range strings.Lines(strings.TrimSpace(fmt.Sprint(result))) {
			b.WriteString(strings.TrimRight(said, " \n") + "\n")
		}
	}
	return b.String()
}

// call makes the call of a step.
func (c Calls) call(t testing.TB, line string) (results []any) {
	args := words.FindAllString(line, -1)
	if c[args[0]] == nil && len(args) > 1 {
		args[0], args[1] = args[1], args[0]
	}
	f := reflect.ValueOf(c[args[0]])
	if f.Kind() != reflect.Func {
		t.Fatalf("%q: no such call", line)
	}
	of, in := f.Type(), []reflect.Value(nil)
	if of.NumIn() == 1 && of.In(0) == reflect.TypeFor[[]string]() && !of.IsVariadic() {
		args, in = nil, []reflect.Value{reflect.ValueOf(strings.Fields(line)[1:])}
	}
	for i, arg := range args[min(1, len(args)):] {
		last := of.NumIn() - 1
		if i > last && !of.IsVariadic() {
			t.Fatalf("%q: %s is one too many", line, arg)
		}
		as := of.In(min(i, last))
		if of.IsVariadic() && i >= last {
			as = as.Elem()
		}
		v, err := c.value(as, strings.ReplaceAll(arg, "'", ""))
		if err != nil {
			t.Fatalf("%q: %s: %v", line, arg, err)
		}
		in = append(in, v)
	}
	for _, result := range f.Call(in) { // which panics if there are too few arguments
		results = append(results, result.Interface())
	}
	return results
}

func (c Calls) value(of reflect.Type, text string) (_ reflect.Value, err error) {
	v := reflect.New(of)
	switch p := v.Interface().(type) {
	case *string:
		*p = text
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	default:
		if k := of.Kind(); k == reflect.Pointer || k == reflect.Interface || k == reflect.Func {
			return c.named(of, text)
		}
		_, err = fmt.Sscan(text, p)
	}
	return v.Elem(), err
}

// named is what has a name in one of the maps.
func (c Calls) named(of reflect.Type, name string) (reflect.Value, error) {
	for _, in := range c {
		in := reflect.ValueOf(in)
		if in.Kind() != reflect.Map {
			continue
		}
		v := in.MapIndex(reflect.ValueOf(name))
		if v.IsValid() && v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if v.IsValid() && v.Type().AssignableTo(of) {
			return v, nil
		}
	}
	return reflect.Value{}, fmt.Errorf("no %v has that name", of)
}
