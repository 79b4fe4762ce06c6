// Package steps runs tests that are written as files: each step is a call, and below it stands, indented, what came of
// it.
//
//	== name of a case: everything is new
//	# a comment
//	sleep 3s
//	mint orders 2
//		7 to 8
//	mint 'a name with spaces' 1
//		error: unknown name
//
// They are files of package script, whose commands are calls of Go functions here: -update-scripts writes the answers.
// Each case has a bubble of testing/synctest for itself: its clock moves only in steps that sleep, and a step is over
// when all goroutines wait.
package steps

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// Calls are the functions that steps call, by name. They may take strings, numbers, booleans and durations, and
// variadically more of these. A line is written for each line of their results; nil and "" are none. The function named
// "", if there is one, is called when a step is over, and says what happened beside it.
type Calls map[string]any

// Run runs the cases of a file, each with Calls of its own.
func Run(t *testing.T, path string, begin func(t *testing.T) Calls) {
	t.Helper()
	script.Run(t, path, func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t)
			play(func(words []string) string { return c.step(t, strings.Join(words, " ")) })
		})
	})
}

var words = regexp.MustCompile(`('[^']*'|[^' ])+`)

// step returns what a step says.
func (c Calls) step(t *testing.T, line string) string {
	var b strings.Builder
	results := c.call(t, line)
	synctest.Wait()
	if besides, ok := c[""].(func() string); ok {
		results = append(results, besides())
	}
	for _, result := range results {
		if err, ok := result.(error); ok {
			result = fmt.Sprint("error: ", err)
		}
		if result == nil {
			continue
		}
		for said := range strings.Lines(fmt.Sprint(result)) {
			b.WriteString(strings.TrimSpace(said) + "\n")
		}
	}
	return b.String()
}

// call makes the call of a step.
func (c Calls) call(t *testing.T, line string) (results []any) {
	args := words.FindAllString(line, -1)
	f := reflect.ValueOf(c[args[0]])
	if !f.IsValid() {
		t.Fatalf("%q: no such call", line)
	}
	of, in := f.Type(), []reflect.Value(nil)
	for i, arg := range args[1:] {
		last := of.NumIn() - 1
		if i > last && !of.IsVariadic() {
			t.Fatalf("%q: %s is one too many", line, arg)
		}
		as := of.In(min(i, last))
		if of.IsVariadic() && i >= last {
			as = as.Elem()
		}
		v, err := value(as, strings.ReplaceAll(arg, "'", ""))
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

func value(of reflect.Type, text string) (_ reflect.Value, err error) {
	v := reflect.New(of)
	switch p := v.Interface().(type) {
	case *string:
		*p = text
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	default:
		_, err = fmt.Sscan(text, p)
	}
	return v.Elem(), err
}
