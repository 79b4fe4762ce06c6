// Package must ends a program at an error: the output that its set-up checks is not complete then.
package must

import "log"

// Of returns v, unless there was an error.
func Of[T any](v T, err error) T {
	Do(err)
	return v
}

// Do ends the program at an error.
func Do(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
