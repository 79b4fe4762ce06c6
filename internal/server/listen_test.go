package server

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
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
