package childprocess

import (
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
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		release, ok := reserve(port) // first: even a look at a port keeps its owner's server from listening
		if !ok {
			continue
		}
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			l.Close()
			t.Cleanup(release)
			return port
		}
		release()
	}
	t.Fatal("no port is free")
	return 0
}
