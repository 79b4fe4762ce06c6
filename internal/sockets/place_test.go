package sockets

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestFits: a passed socket must be of the kind, the number and the path of its place, and at its host unless a
// supervisor has opened it.
func TestFits(t *testing.T) {
	tcp, udp := &net.TCPAddr{IP: net.IPv6unspecified, Port: 7}, &net.UDPAddr{IP: net.IPv4zero, Port: 7}
	one, six := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7}, &net.TCPAddr{IP: net.IPv6loopback, Port: 7}
	unix := &net.UnixAddr{Name: "/s", Net: "unix"}
	for _, c := range []struct {
		at   Place
		addr net.Addr
		want string
	}{
		{Place{Port: 7}, tcp, ""},
		{Place{}, tcp, ""},
		{Place{Port: 8}, tcp, "its port is 7, that of these settings is 8"},
		{Place{Port: 7}, unix, "it is a unix socket, not a TCP one"},
		{Place{Port: 7}, udp, "it is a socket of udp"},
		{Place{Path: "/s"}, unix, ""},
		{Place{Path: "/s", Port: 9}, unix, ""},
		{Place{Path: "/t"}, unix, "its path is /s, that of these settings is /t"},
		{Place{Path: "/s"}, tcp, "it is a TCP socket, not a unix one"},
		{Place{Path: "/s"}, udp, "it is a socket of udp"},
		{Place{UDP: true, Port: 7}, udp, ""},
		{Place{UDP: true, Port: 8}, udp, "its port is 7, that of these settings is 8"},
		{Place{UDP: true, Port: 7}, tcp, "it is a socket of tcp, not of UDP"},
		{Place{UDP: true}, unix, "it is a socket of unix, not of UDP"},
		{Place{Host: "127.0.0.1"}, one, ""},
		{Place{Host: "::ffff:127.0.0.1"}, one, ""},
		{Place{Host: "0.0.0.0"}, tcp, ""},
		{Place{Host: "localhost"}, six, ""},
		{Place{Host: "fe80::1%2"}, &net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, ""},
		{Place{Host: Loopback, Local: true}, six, ""},
		{Place{Host: Loopback}, six, "its address is ::1, that of these settings is 127.0.0.1"},
		{Place{Host: "127.0.0.2"}, one, "its address is 127.0.0.1, that of these settings is 127.0.0.2"},
		{Place{Host: "127.0.0.2"}, tcp, "its address is ::, that of these settings is 127.0.0.2"},
		{Place{UDP: true, Host: "::1"}, udp, "its address is 0.0.0.0, that of these settings is ::1"},
		{Place{}, one, "its address is 127.0.0.1, that of these settings is ::"},
		{Place{Local: true, Host: Loopback}, tcp, "its address is ::, that of these settings is 127.0.0.1"},
	} {
		got := ""
		if err := c.at.fits(c.addr, false); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v, %v: %q, want %q", c.at, c.addr, got, c.want)
		}
		if err := c.at.fits(c.addr, true); (err != nil) != (c.want != "" && !strings.HasPrefix(c.want, "its address")) {
			t.Errorf("%+v, %v of a supervisor: %v", c.at, c.addr, err)
		}
	}
}

// TestCheckHost: what can only be a mistake is refused before a port is opened.
func TestCheckHost(t *testing.T) {
	for host, allowed := range map[string]bool{
		"": true, "10.0.0.1": true, "::1": true, "fe80::1%lo": true, "localhost": true, "ids-1.example": true, "h.": true,
		"1.example": true, "h1": true, "h:1": false, "[::1]": false, "a b": false, "10.0.0.1/8": false,
		"10.0.0.1,10.0.0.2": false, "a,b": false, "127.1": false, "300.1.1.1": false, "8081": false,
	} {
		if err := CheckHost(host); (err == nil) != allowed {
			t.Errorf("%q: %v", host, err)
		}
	}
}

// TestClashes: two TCP ports cannot have one number where they have an address in common. The later one is wrong.
func TestClashes(t *testing.T) {
	for _, c := range []struct {
		a, b Place
		want string
	}{
		{Place{Port: 7}, Place{Port: 8}, ""},
		{Place{}, Place{}, ""},
		{Place{Port: 7}, Place{Port: 7}, "b: 7 is the A port too"},
		{Place{Port: 7, Host: "127.0.0.1"}, Place{Port: 7, Host: "127.0.0.2"}, ""},
		{Place{Port: 7, Host: "127.0.0.1"}, Place{Port: 7, Host: "LocalHost"}, "b: 7 is the A port too"},
		{Place{Port: 7, Host: "::"}, Place{Port: 7, Host: "127.0.0.2"}, "b: 7 is the A port too"},
		{Place{Port: 7, Host: "127.0.0.1"}, Place{Port: 7, Host: "0.0.0.0"}, "b: 7 is the A port too"},
		{Place{Port: 7, Optional: true}, Place{Port: 7}, ""},
		{Place{Port: 7}, Place{Port: 7, Optional: true}, ""},
		{Place{Port: 7, Path: "/s"}, Place{Port: 7}, ""},
		{Place{Port: 7}, Place{Port: 7, Path: "/s"}, ""},
		{Place{Port: 7}, Place{Port: 7, UDP: true}, ""},
		{Place{Port: 7, UDP: true}, Place{Port: 7}, ""},
	} {
		c.a.Flag, c.a.Title, c.b.Flag, c.b.Title = "a", "A", "b", "B"
		var got []string
		Clashes([]Place{c.a, c.b}, func(field, format string, args ...any) {
			got = append(got, field+": "+fmt.Sprintf(format, args...))
		})
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%+v, %+v: %q, want %q", c.a, c.b, got, c.want)
		}
	}
}

// TestLimits of numbers and paths.
func TestLimits(t *testing.T) {
	for n, ok := range map[int]bool{-1: false, 0: true, 1: true, 65535: true, 65536: false} {
		if err := CheckNumber(n); (err == nil) != ok {
			t.Errorf("port %d: %v", n, err)
		}
	}
	for n, ok := range map[int]bool{0: true, maxPath: true, maxPath + 1: false} {
		if err := CheckPath(strings.Repeat("x", n)); (err == nil) != ok {
			t.Errorf("a path of %d bytes: %v", n, err)
		}
	}
}

// TestListen: as many listeners as asked for, on TCP and on a unix socket with its permissions.
func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for _, at := range []Place{{Host: Loopback}, {Path: path, Mode: 0o640, Host: Loopback}} {
		lns, err := at.Listen(3)
		if err != nil {
			t.Fatal(err)
		}
		for _, ln := range lns {
			if got := ln.Addr().String(); got != lns[0].Addr().String() {
				t.Errorf("one of them is at %s, the first at %v", got, lns[0].Addr())
			}
			defer ln.Close()
		}
		network := lns[0].Addr().Network()
		if want := map[bool]string{true: "unix", false: "tcp"}[at.Path != ""]; network != want || len(lns) > 3 {
			t.Errorf("%d listeners on %s, want %s", len(lns), network, want)
		}
		if tcp, ok := lns[0].Addr().(*net.TCPAddr); ok {
			at.Port = tcp.Port
		}
		if err := at.Probe(); err == nil {
			t.Errorf("%v: it is in use, and a probe finds nothing", lns[0].Addr())
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode()&fs.ModePerm != 0o640 {
		t.Errorf("the unix socket: %v, %v", info, err)
	}
}

// TestLocalPlacesTakeTheOtherFamily: but only places that may be at any loopback address.
func TestLocalPlacesTakeTheOtherFamily(t *testing.T) {
	for _, local := range []bool{true, false} {
		var tried []string
		Place{Host: "127.0.0.9", Port: 7, Local: local}.onAddress(func(addr string) error {
			tried = append(tried, addr)
			return syscall.EAFNOSUPPORT
		})
		want := []string{"127.0.0.9:7", "[::1]:7"}
		if !local {
			want = want[:1]
		}
		if !slices.Equal(tried, want) {
			t.Errorf("local=%v: tried %v, want %v", local, tried, want)
		}
	}
}
