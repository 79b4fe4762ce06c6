package childprocess

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort is a TCP port of 127.0.0.1 that nobody listens on. It is below those that outgoing
// connections are given, so that none of them takes it before a server does, or while that is dead.
// Until the test has ended, FreePort gives it to nobody else on this host: neither to another test
// nor to another process.
func FreePort(t testing.TB) int {
	t.Helper()
	port, release, err := TakePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

// TakePort is FreePort for what is no test. The port is the caller's until release; the caller must keep release, or
// others may get the port before that.
func TakePort() (port int, release func(), err error) {
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		release, ok := reserve(port) // first: even a look at a port keeps its owner's server from listening
		if !ok {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			l.Close()
			return port, release, nil
		}
		release()
	}
	return 0, nil, errors.New("no port is free")
}
