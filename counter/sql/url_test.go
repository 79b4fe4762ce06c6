package sql

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A connection to a server that has stopped is given up.
func TestNoServerIsWaitedForForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, _ := net.Pipe()
		c := impatient{conn, patience}
		for i, call := range []func([]byte) (int, error){c.Read, c.Write} {
			began := time.Now()
			if _, err := call(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != patience {
				t.Errorf("call %d: %v after %v", i, err, time.Since(began))
			}
		}
	})
}

// The docs have the statements that errors print.
func TestTablesOfTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/SEQUENCES.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{"postgres://ids@db/app", "mysql://ids@db/app"} {
		target, err := Config{URL: url}.parse()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n"+target.createTable()+"\n") {
			t.Errorf("not in the docs:\n%s", target.createTable())
		}
	}
}
