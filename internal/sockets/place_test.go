package sockets

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// TestPlaces: the settings of a place are JSON.
func TestPlaces(t *testing.T) {
	place := func(text string) (at Place) {
		if err := json.Unmarshal([]byte(text), &at); err != nil {
			t.Fatal(err)
		}
		return at
	}
	calls := steps.Calls{
		"fits": func(text, network, address string) (string, error) {
			var addr net.Addr = &net.UnixAddr{Name: address, Net: network}
			if ip, err := netip.ParseAddrPort(address); err == nil {
				addr = net.TCPAddrFromAddrPort(ip)
				if network == "udp" {
					addr = net.UDPAddrFromAddrPort(ip)
				}
			}
			by := "nor of a supervisor"
			if place(text).fits(addr, true) == nil {
				by = "of a supervisor it does"
			}
			return by, place(text).fits(addr, false)
		},
		"host":   CheckHost,
		"number": CheckNumber,
		"path":   func(bytes int) error { return CheckPath(strings.Repeat("x", bytes)) },
		"clash": func(a, b string) (said string) {
			one, two := place(a), place(b)
			one.Flag, one.Title, two.Flag, two.Title = "a", "A", "b", "B"
			Clashes([]Place{one, two}, func(field, format string, args ...any) {
				said += field + ": " + fmt.Sprintf(format, args...) + "\n"
			})
			return said
		},
	}
	steps.Run(t, "testdata/places.txt", func(*testing.T) steps.Calls { return calls })
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
