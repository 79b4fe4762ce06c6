package clients

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// TestTheKernelIsAsked about real connections of three clients to two ports, and of one to another port.
func TestTheKernelIsAsked(t *testing.T) {
	listen := func() *net.TCPListener {
		ln, err := net.Listen("tcp", "[::]:0") // IPv4 too
		if err != nil {
			t.Skipf("no IPv6: %v", err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln.(*net.TCPListener)
	}
	ours, second, other := listen(), listen(), listen()
	connect := func(ln *net.TCPListener, local, remote string, said int) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(local)}}
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		client, err := d.Dial("tcp", net.JoinHostPort(remote, port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		server, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { server.Close() })
		if _, err := client.Write(make([]byte, said)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(server, make([]byte, said)); err != nil {
			t.Fatal(err)
		}
	}
	connect(ours, "127.0.0.2", "127.0.0.1", 1000)
	connect(ours, "127.0.0.1", "127.0.0.1", 3000)
	connect(second, "127.0.0.1", "127.0.0.1", 0)
	connect(ours, "::1", "::1", 2000)
	connect(other, "127.0.0.3", "127.0.0.1", 1)
	at := []netip.AddrPort{ours.Addr().(*net.TCPAddr).AddrPort(), second.Addr().(*net.TCPAddr).AddrPort()}
	var top Top
	childprocess.Until(t, "a look had time for all", func() bool { // on a busy machine one may not have
		top = new(Watch).Look(at)
		return !top.Partial
	})
	want := []Client{{"127.0.0.1", 2, -1, -1, 3000}, {"::1", 1, -1, -1, 2000}, {"127.0.0.2", 1, -1, -1, 1000}}
	if !top.Known || top.More != 0 || !slices.Equal(top.Clients, want) {
		t.Errorf("%+v, want %+v", top, want)
	}
}
