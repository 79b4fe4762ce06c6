package uring

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/latency"
	"github.com/katsubushi/katsubushi/v3/internal/server"

	"golang.org/x/sys/unix"
)

// The io_uring of a process that was killed lives on for a while, and its accept takes the wake-up for
// each connection. Here it is a ring that nobody enters again. The engine must accept nevertheless.
func TestAcceptOfTheDeadIsWokenFirst(t *testing.T) {
	if err := Probe(2); err != nil {
		t.Skip(err)
	}
	for name, thaws := range map[string]bool{"shared": false, "thawed": true} {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread() // a ring belongs to a thread
			defer runtime.UnlockOSThread()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			addr := ln.Addr().String()
			file, err := ln.(*net.TCPListener).File()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			unix.SetNonblock(int(file.Fd()), true)
			dead, err := newRing(16, New(server.Config{}).Sizes)
			if err != nil {
				t.Fatal(err)
			}
			defer dead.close(false)
			die := func() { // waits in the queue before the engine, which the kernel wakes in this order
				*dead.next() = sqe{op: opAccept, fd: int32(file.Fd()), fileIndex: allocFile, mode: acceptMultishot, tag: tagAccept}
				if e := dead.enter(false, false, true); e != 0 {
					t.Fatal(e)
				}
			}
			engine := New(server.Config{Now: func() int64 {
				return 0
			}, DrainTimeout: time.Minute, Counters: new(server.Counters), Budget: server.NewBudget(1 << 30),
				Log: slog.Default()})
			ports := []server.Port{{Listeners: []net.Listener{ln},
				Shared: !thaws, Open: func(int, *latency.Asked) server.Session {
					return new(echoSession)
				}}}
			ctx, cancel := context.WithCancel(context.Background())
			served := make(chan error, 1)
			serve := func() { go func() { served <- engine.Serve(ctx, ports) }() }
			defer func() {
				cancel()
				if err := <-served; err != nil {
					t.Error(err)
				}
			}()
			if thaws {
				serve()
				echo(t, addr)
				moved, err := engine.Freeze(ctx)
				if err != nil || len(moved) != 0 {
					t.Fatalf("froze %d connections, %v", len(moved), err)
				}
				die()
				if err := engine.Thaw(nil); err != nil {
					t.Fatal(err)
				}
			} else {
				die()
				serve()
			}
			for range 3 {
				echo(t, addr)
			}
			if dead.ready() != dead.seen {
				t.Error("the dead ring accepted")
			}
		})
	}
}

// echo talks with the engine over a connection of its own.
func echo(t *testing.T, addr string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "echo 1\n")
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || line != "1\r\n" {
		t.Fatalf("%q, %v: the connection waits in the backlog", line, err)
	}
}
