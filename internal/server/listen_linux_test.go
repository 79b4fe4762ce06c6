package server

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const v6onlyEnv = "KATSUBUSHI_SERVER_TEST_BINDV6ONLY"

// Even with net.ipv6.bindv6only set, an empty host means all addresses. The test needs its own
// network namespace, thus root.
func TestAllAddressesWithBindV6Only(t *testing.T) {
	if os.Geteuid() != 0 || !haveIPv6() {
		t.Skip("needs root and IPv6")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildWithBindV6Only$", "-test.v")
	cmd.Env = append(os.Environ(), v6onlyEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestChildWithBindV6Only(t *testing.T) {
	if os.Getenv(v6onlyEnv) == "" {
		t.Skip("for another test")
	}
	raiseLoopback(t)
	if err := os.WriteFile("/proc/sys/net/ipv6/bindv6only", []byte("1"), 0); err != nil {
		t.Skip(err)
	}
	TestAllAddresses(t)
}

func raiseLoopback(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		t.Fatal(err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		t.Fatal(err)
	}
}
