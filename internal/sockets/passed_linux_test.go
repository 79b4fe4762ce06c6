package sockets

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// opened returns a socket of each kind, with a place for each.
func opened(t *testing.T) (p Passed, places []Place) {
	t.Helper()
	places = []Place{
		{Flag: "port", Host: Loopback}, {Flag: "udp-port", Host: Loopback, UDP: true},
		{Flag: "other", Path: filepath.Join(t.TempDir(), "s"), Mode: 0o700},
	}
	for i := range places {
		at := &places[i]
		var socket any
		var err error
		if at.UDP {
			socket, err = Passed(nil).UDP(*at)
		} else {
			socket, err = Passed(nil).Listener(*at)
		}
		if err == nil {
			err = p.Add(at.Name(), socket, i == 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		switch s := socket.(type) {
		case *net.TCPListener:
			at.Port = s.Addr().(*net.TCPAddr).Port
			t.Cleanup(func() { s.Close() })
		case *net.UDPConn:
			at.Port = s.LocalAddr().(*net.UDPAddr).Port
			t.Cleanup(func() { s.Close() })
		case net.Listener:
			t.Cleanup(func() { s.Close() })
		}
	}
	t.Cleanup(p.Close)
	return p, places
}

// TestPassedSockets are taken by name instead of opened, and copies outlive the originals.
func TestPassedSockets(t *testing.T) {
	p, places := opened(t)
	if !p.Lent("port") || p.Lent("udp-port") || p.Lent(Unix) || p.Lent("none") {
		t.Errorf("which are lent: %+v", p)
	}
	all, err := p.Copies()
	if err != nil || len(all) != len(p) {
		t.Fatal(all, err)
	}
	for i, fd := range all.Descriptors() {
		if all[i].Name != p[i].Name || all[i].Lent != p[i].Lent || fd == p[i].FD {
			t.Errorf("%+v is a copy of %+v", all[i], p[i])
		}
	}
	lns, err := all.Listeners(places[0], 3)
	if err != nil || len(lns) != 3 || lns[2].Addr().(*net.TCPAddr).Port != places[0].Port {
		t.Errorf("%v, %v", lns, err)
	}
	for _, ln := range lns {
		ln.Close()
	}
	all.Add(Unix, lnOf(t, all, places[2]), false)
	ln, err := all.Listener(places[2])
	if err != nil || ln.Addr().String() != places[2].Path {
		t.Errorf("%v, %v", ln, err)
	}
	ln.Close()
	udp, err := all.UDP(places[1])
	if err != nil || udp.LocalAddr().(*net.UDPAddr).Port != places[1].Port {
		t.Errorf("%v, %v", udp, err)
	}
	udp.Close()
	all.Close()
	for _, fd := range all.Descriptors() {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("descriptor %d is open", fd)
		}
	}
	if _, err := (Passed{{"port", -1, false}}).Copies(); err == nil {
		t.Error("a copy of nothing")
	}
	if _, err := (Passed{{"port", -1, false}}).Listener(places[0]); err == nil {
		t.Error("a listener of nothing")
	}
}

// TestHolder: who listens is known by its process, and who only connects is nobody.
func TestHolder(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} {
		ln, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		want := fmt.Sprintf("process %d (sockets.test)", os.Getpid())
		if got := Holder(ln.Addr().(*net.TCPAddr).Port); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := Holder(conn.LocalAddr().(*net.TCPAddr).Port); got != "unknown" {
			t.Errorf("a connection's port: %q", got)
		}
	}
}

func lnOf(t *testing.T, p Passed, at Place) net.Listener {
	t.Helper()
	ln, err := p.Listener(at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// TestCheck: sockets without a place, of another kind, and missing ones.
func TestCheck(t *testing.T) {
	p, places := opened(t)
	names := []string{"other", "port", Unix, "udp-port"}
	said := func(err error) (all []string) {
		for _, e := range problem.Of(err) {
			all = append(all, e.Error())
		}
		return all
	}
	if err := p.Check(places, names, true); err != nil {
		t.Error(err)
	}
	stranger := append(Passed{{"other", p[0].FD, false}, {"udp-port", p[0].FD, false}}, p[2])
	want := []string{
		"passed socket other: no port of these settings: names are other, port, sock, udp-port, and the port must be on",
		"passed socket udp-port: it is a socket of tcp, not of UDP",
	}
	for _, all := range []bool{false, true} {
		got := said(stranger.Check(places, names, all))
		if all {
			want = append(want, "port port: the process that runs did not pass it: a port is added by a restart")
		}
		if len(got) != len(want) {
			t.Errorf("%q, want %q", got, want)
			continue
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	}
	if got := said(Passed(nil).Check(places, names, true)); len(got) != 3 || got[0] != "port port: the process that runs "+
		"did not pass it: a port is added by a restart" || got[1][:9] != "port sock" {
		t.Errorf("%q", got)
	}
	places[0].Optional = true
	if got := said(p[1:].Check(places, names, true)); got != nil {
		t.Errorf("without a port that nobody asked for: %q", got)
	}
	if got := said(Passed{{"port", -1, false}}.Check(places, names, false)); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
