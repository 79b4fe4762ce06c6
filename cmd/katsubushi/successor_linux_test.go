package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/upgrade"
)

// A daemon under test may be upgraded to this test program, which then does what the file PROGRAM.mode
// says: it misbehaves, or it is a go-between for the real program that kills one of the two processes at
// a step.

// actAsSuccessor does that and returns true, if a daemon has started this program.
func actAsSuccessor() bool {
	if os.Getenv("KATSUBUSHI_UPGRADE") == "" {
		return false
	}
	mode, err := os.ReadFile(os.Args[0] + ".mode")
	if err != nil {
		return false
	}
	origin, err := upgrade.FromEnvironment()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	words := strings.Fields(string(mode))
	if words[0] != "between" {
		misbehave(origin, words[0])
		return true
	}
	between(origin, words[1], upgrade.Kind(words[2]), words[3], words[4])
	return true
}

func misbehave(origin *upgrade.Origin, how string) {
	fingerprint := ""
	for m := (upgrade.Message{}); m.Kind != upgrade.Begin; fingerprint = m.Fingerprint {
		var err error
		if m, _, err = origin.Receive(); err != nil {
			os.Exit(1)
		}
	}
	switch how {
	case "version":
		origin.Send(upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version + 1, Program: "99.0.0"})
	case "deaf":
		origin.Send(upgrade.Message{Kind: upgrade.Hello, Version: upgrade.Version, Fingerprint: fingerprint})
	case "waits":
		origin.Send(upgrade.Message{Kind: upgrade.Waiting, Why: "no worker id is free"})
	}
	time.Sleep(time.Hour) // until it is killed
}

// between passes what the old process and program, as the new one, say to each other. When a message of
// a kind comes, the victim (old or new) is killed: before or after it is passed on. What the old process
// may have said after that is lost. With later the new one is killed once the file PROGRAM.now exists, and
// the message is not passed on; with asleep the old one is not killed, but stopped before it is.
func between(origin *upgrade.Origin, program string, kind upgrade.Kind, victim, when string) {
	origin.Detach() // the old process may die
	child, err := upgrade.Start(program, os.Args, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	old := os.Getppid()
	strike := func() {
		if victim == "new" {
			child.Kill()
			<-child.Exited()
			os.Exit(1)
		}
		syscall.Kill(old, syscall.SIGKILL)
	}
	var striking sync.Mutex
	pass := func(m upgrade.Message, fds []int, send func(upgrade.Message, ...int) error) (lives bool) {
		striking.Lock() // until the end, if the new process is killed: its answer must not get through
		defer striking.Unlock()
		defer upgrade.CloseAll(fds)
		if m.Kind == kind && when == "later" {
			for _, err := os.Stat(os.Args[0] + ".now"); err != nil; _, err = os.Stat(os.Args[0] + ".now") {
				time.Sleep(time.Millisecond)
			}
		}
		if m.Kind == kind && when == "asleep" {
			syscall.Kill(old, syscall.SIGSTOP)
			for !asleep(old) {
				time.Sleep(time.Millisecond)
			}
		}
		if m.Kind == kind && (when == "before" || when == "later") {
			strike()
			return false // it died before it said that
		}
		send(m, fds...)
		if m.Kind == kind && when == "after" {
			strike()
			return false
		}
		return true
	}
	go func() {
		for {
			m, fds, err := child.Receive()
			if err != nil { // it has ended, or needs nothing more
				<-child.Exited()
				os.Exit(1)
			}
			pass(m, fds, origin.Send)
		}
	}()
	for {
		m, fds, err := origin.Receive()
		if err != nil || !pass(m, fds, child.Send) {
			child.Close()
			<-child.Exited() // its errors go through here until then
			os.Exit(0)
		}
	}
}

// asleep reports whether a process was stopped, with all its threads.
func asleep(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range stats {
		if text, err := os.ReadFile(file); err == nil && !bytes.Contains(text, []byte(") T ")) {
			return false
		}
	}
	return len(stats) > 0
}
