package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestSecondDaemonFindsAddressInUse(t *testing.T) {
	for _, n := range []int{1, 2} {
		lns, err := ListenTCP("127.0.0.1:0", n)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(lns)
		for _, second := range []int{1, 2} {
			if again, err := ListenTCP(lns[0].Addr().String(), second); !errors.Is(err, syscall.EADDRINUSE) {
				closeAll(again)
				t.Errorf("%d listeners where %d listen: error %v, want address in use", second, n, err)
			}
		}
	}
}

func TestListenersShareOnePort(t *testing.T) {
	lns, err := ListenTCP("127.0.0.1:0", 3)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(lns)
	if runtime.GOOS == "linux" && len(lns) != 3 {
		t.Fatalf("%d listeners, want 3", len(lns))
	}
	for _, ln := range lns {
		if ln.Addr().String() != lns[0].Addr().String() {
			t.Errorf("listeners on %v and %v", ln.Addr(), lns[0].Addr())
		}
	}
}

func TestAllAddresses(t *testing.T) {
	for _, test := range []struct {
		bind   string
		v4, v6 bool
	}{
		{":0", true, true},
		{"[::]:0", true, true},
		{"0.0.0.0:0", true, false},
		{"127.0.0.1:0", true, false},
		{"[::1]:0", false, true},
		{"localhost:0", true, false},
	} {
		for _, n := range []int{1, 2} {
			lns, err := ListenTCP(test.bind, n)
			if err != nil {
				if strings.Contains(test.bind, "::") && !haveIPv6() {
					t.Logf("no IPv6 here")
					continue
				}
				t.Fatal(err)
			}
			for host, want := range map[string]bool{"127.0.0.1": test.v4, "::1": test.v6 && haveIPv6()} {
				c, err := net.Dial("tcp", net.JoinHostPort(host, portOf(lns[0])))
				if (err == nil) != want {
					t.Errorf("%d listeners on %s: dialling %s: %v", n, test.bind, host, err)
				}
				if err == nil {
					c.Close()
				}
			}
			closeAll(lns)
		}
	}
}

// hammer connects to an address all the time while f runs, and returns the connections.
func hammer(t *testing.T, network, addr string, f func()) (all []net.Conn) {
	t.Helper()
	var stop atomic.Bool
	var mu sync.Mutex
	var clients sync.WaitGroup
	for range 2 {
		clients.Go(func() {
			for !stop.Load() {
				if c, err := net.Dial(network, addr); err == nil {
					mu.Lock()
					all = append(all, c)
					mu.Unlock()
				}
			}
		})
	}
	f()
	stop.Store(true)
	clients.Wait()
	return all
}

// TestProbesDoNotListen: a client that connects during a probe is refused. If the probe listened, the client
// would be connected, and reset.
func TestProbesDoNotListen(t *testing.T) {
	lns, err := ListenTCP("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	free, path := lns[0].Addr().String(), filepath.Join(socketDir(t), "s")
	closeAll(lns)
	for network, probe := range map[string]func() error{
		"tcp":  func() error { return ProbeTCP(free) },
		"unix": func() error { return ProbeUnix(path) },
	} {
		addr := map[string]string{"tcp": free, "unix": path}[network]
		for _, c := range hammer(t, network, addr, func() {
			for range 300 {
				if err := probe(); err != nil {
					t.Errorf("%s: %v", network, err)
				}
			}
		}) {
			if c.LocalAddr().String() != addr { // a client may connect to itself
				t.Errorf("%s: a client is connected to nobody", network)
			}
			c.Close()
		}
	}
}

// TestProbes: a probe finds what listening would.
func TestProbes(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	for _, addr := range []string{"127.0.0.1:0", ":0", "[::1]:0", "localhost:0", "0.0.0.0:0", "[::]:0"} {
		if strings.Contains(addr, "::") && !haveIPv6() {
			continue
		}
		if err := ProbeTCP(addr); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
		for _, n := range []int{1, 2} {
			lns, err := ListenTCP(addr, n)
			if err != nil {
				t.Fatal(addr, err)
			}
			host, _, _ := net.SplitHostPort(addr)
			_, want := ListenTCP(net.JoinHostPort(host, portOf(lns[0])), 1)
			got := ProbeTCP(net.JoinHostPort(host, portOf(lns[0])))
			if !errors.Is(got, syscall.EADDRINUSE) || got.Error() != want.Error() {
				t.Errorf("%s in use: a probe says %v, listening %v", addr, got, want)
			}
			closeAll(lns)
		}
	}
	for _, addr := range []string{"192.0.2.1:0", "127.0.0.1", "no such host:0"} {
		_, want := ListenTCP(addr, 1)
		if got := ProbeTCP(addr); got == nil || got.Error() != want.Error() {
			t.Errorf("%s: a probe says %v, listening %v", addr, got, want)
		}
	}
	if err := ProbeUnix(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the probe leaves a file: %v", err)
	}
	lns, err := ListenUnix(path, 0o700, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(lns)
	if err := ProbeUnix(path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a unix socket in use: %v", err)
	}
	if err := ProbeUnix(filepath.Join(path+".d", "s")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
}

// TestListeningResetsNobody: a client that connects while several listeners are opened is in the backlog of one.
func TestListeningResetsNobody(t *testing.T) {
	lns, err := ListenTCP("127.0.0.1:0", 1)
	if err != nil {
		t.Fatal(err)
	}
	addr := lns[0].Addr().String()
	closeAll(lns)
	listened := 0
	for range 300 {
		var err error
		clients := hammer(t, "tcp", addr, func() {
			if lns, err = ListenTCP(addr, 4); err != nil {
				return
			}
			for _, ln := range lns {
				go func() {
					for {
						c, err := ln.Accept()
						if err != nil {
							return
						}
						c.Write([]byte("x"))
						c.Close()
					}
				}()
			}
		})
		if err != nil {
			for _, c := range clients { // a client that is connected to itself has the port
				c.Close()
			}
			continue
		}
		listened++
		for _, c := range clients {
			c.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := c.Read(make([]byte, 1)); n != 1 && c.LocalAddr().String() != addr {
				t.Errorf("a client that was connected: %v", err)
			}
			c.Close()
		}
		closeAll(lns)
	}
	if listened == 0 {
		t.Error("it could not listen once")
	}
}

func portOf(ln net.Listener) string {
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

func haveIPv6() bool {
	ln, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	ln.Close()
	return true
}

func TestUnixSocketPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions on sockets")
	}
	for _, mode := range []fs.FileMode{0o700, 0o777, 0o660} {
		path := filepath.Join(socketDir(t), "s")
		lns, err := ListenUnix(path, mode, 2)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != mode {
			t.Errorf("mode %o, want %o", info.Mode().Perm(), mode)
		}
		closeAll(lns)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	old, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(path, 0o700, 1); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("a socket in use: error %v, want address in use", err)
	}
	old.(*net.UnixListener).SetUnlinkOnClose(false) // as if the process was killed
	old.Close()
	lns, err := ListenUnix(path, 0o700, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(lns)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestOtherFilesAreNotReplaced(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(path, 0o700, 1); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("error %v, want one that says it is not a socket", err)
	}
	if b, err := os.ReadFile(path); string(b) != "precious" {
		t.Errorf("file is now %q (%v)", b, err)
	}
}

// A socket of another kind refuses connections too, but for another reason than a missing listener.
func TestOtherSocketsAreNotReplaced(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	c, err := net.ListenPacket("unixgram", path)
	if err != nil {
		t.Skip(err)
	}
	defer c.Close()
	if _, err := ListenUnix(path, 0o700, 1); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names the socket", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// An engine does not remove the socket file of its successor.
func TestSuccessorsSocketIsNotRemoved(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	lns, err := ListenUnix(path, 0o700, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(lns)
	removeFiles := TakeSocketFiles([]Port{{Listeners: lns}})
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	successor, err := ListenUnix(path, 0o700, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(successor)
	removeFiles()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
}

// socketDir is t.TempDir with a path short enough for a socket address.
func socketDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
