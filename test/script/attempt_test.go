package script

import (
	"errors"
	"testing"
)

// What panics with an Again begins anew, and nothing else does.
func TestAttempt(t *testing.T) {
	tries := 0
	Attempt(t, func() {
		if tries++; tries < 3 {
			panic(Again{"it stood still"})
		}
	})
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
	bad := errors.New("bad")
	defer func() {
		if p := recover(); p != bad || tries != 4 {
			t.Errorf("%v after %d tries", p, tries)
		}
	}()
	Attempt(t, func() {
		tries++
		panic(bad)
	})
}
