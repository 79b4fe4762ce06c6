package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/katsubushi/katsubushi/v3/internal/users"
)

// comparerArgument makes this program one that compares passwords for a daemon; see users.CompareBeside. It is
// no subcommand, because nobody is to type it.
const comparerArgument = "-compare-passwords-for-the-daemon"

// comparePasswords does not return if that is what this process is for.
func comparePasswords() {
	if len(os.Args) != 2 || os.Args[1] != comparerArgument {
		return
	}
	if err := users.CompareBeside(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailure)
	}
	os.Exit(exitOK)
}

// passwordComparer returns what starts such a process; nil = it would be no use, because its priority cannot
// be lowered.
func passwordComparer() func() *exec.Cmd {
	if runtime.GOOS != "linux" {
		return nil
	}
	return func() *exec.Cmd {
		c := exec.Command("/proc/self/exe", comparerArgument) // this very program, though its file was replaced
		c.Args[0] = "katsubushi"
		c.Env = []string{} // not the daemon's, which may have secrets
		return c
	}
}
