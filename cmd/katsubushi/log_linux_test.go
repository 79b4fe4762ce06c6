package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fullPipe makes a pipe that takes not one byte more.
func fullPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	full := []byte(strings.Repeat("x", 4095) + "\n")
	err = raw.Write(func(fd uintptr) bool {
		for err == nil {
			_, err = unix.Write(int(fd), full) // the pipe does not block yet
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Fd() // now it does
	return r, w
}
