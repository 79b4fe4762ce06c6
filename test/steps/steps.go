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
	"testing"
	"testing/synctest"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

// Calls are the functions that steps call. The one named "", if there is one, is called when a step is over, and says
// what happened beside it.
type Calls = script.Calls

// Run runs the cases of a file, each with Calls of its own.
func Run(t *testing.T, path string, begin func(t *testing.T) Calls) {
	t.Helper()
	script.Run(t, path, func(t *testing.T, play func(script.Do)) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t)
			play(func(words []string) string { return step(t, c, words) })
		})
	})
}

// step returns what a step says.
func step(t *testing.T, c Calls, line []string) string {
	besides, ok := c[""].(func() string)
	return c.Do(t, line, func() string {
		synctest.Wait()
		if ok {
			return besides()
		}
		return ""
	})
}
