package main

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A window leaves nothing behind: the server must not have its connections beside those of the next
// one.
func TestConnectionsEndWithTheirWindow(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	cpus, err := allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	drivers := map[string]func() driver{"epoll": func() driver { return &epollDriver{} }}
	if err := probeRing(); err != nil {
		t.Logf("without uring: %v", err)
	} else {
		drivers["uring"] = func() driver { return &uringDriver{} }
	}
	const conns = 8
	for name, drv := range drivers {
		accepted := make(chan *net.TCPConn, conns)
		go func() {
			for range conns {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				accepted <- c.(*net.TCPConn)
				// no reads but for requests, so that the end of the connection is not noticed and
				// cleaned up here
				go func() {
					for buf := make([]byte, len("get id\r\n")); ; {
						if n, err := c.Read(buf); err != nil || n == 0 {
							return
						}
						c.Write([]byte(id(1)))
					}
				}()
			}
		}()
		g := &generator{cpus: cpus, serverCPU: -1, base: time.Now(), warm: time.Millisecond, length: 10 * time.Millisecond,
			driver: drv}
		m := mode{dialect: "text", key: "id", conns: conns, depth: 1, keys: 1}
		to := endpoint{via: overTCP, address: ln.Addr().String()}
		if _, err := g.window(load{mode: m, to: to, speech: "memcached"}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range conns {
			c := <-accepted
			if state := tcpState(t, c); state == tcpEstablished {
				t.Errorf("%s: a connection is open after its window", name)
			}
			c.Close()
		}
	}
}

const tcpEstablished = 1

func tcpState(t *testing.T, c *net.TCPConn) (state uint8) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		state = info.State
	})
	return state
}
