package daemon

import (
	"fmt"
	"io"
	"net/netip"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
	"github.com/katsubushi/katsubushi/v3/protocol/resp"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// The first byte of a connection to the memcached port chooses the protocol, and nothing stays
// between the engine and that protocol's session. The other port speaks only one.
func TestTheFirstByteChoosesTheProtocol(t *testing.T) {
	d, address := run(t, func(c *Config) { c.RedisPort = redistest.FreePort(t) })
	for _, c := range []struct {
		port     int
		in, want string
		session  server.Session
	}{
		{0, "version\r\n", "VERSION 3.4.5\r\n", &memcache.Session{}},
		{0, "\x80\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			"\x81\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			&memcache.Session{}},
		{0, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n", &resp.Session{}},
		{0, "ping\r\n", "ERROR\r\n", &memcache.Session{}},
		{1, "*1\r\n$4\r\nPING\r\n", "+PONG\r\n", &resp.Session{}},
		{1, "ping\r\n", "+PONG\r\n", &resp.Session{}},
		{1, "version\r\n", "-ERR unknown command 'version', with args beginning with: \r\n", &resp.Session{}},
	} {
		s := d.opener(&d.ports[c.port])(0)
		n, reply, _, err := server.Converse(&s, 0, []byte(c.in), nil)
		if n != len(c.in) || string(reply) != c.want || err != nil {
			t.Errorf("port %d, %q: %q, %v", c.port, c.in, reply, err)
		}
		if got, want := fmt.Sprintf("%T", s), fmt.Sprintf("%T", c.session); got != want {
			t.Errorf("port %d, %q: the session is %s, want %s", c.port, c.in, got, want)
		}
	}
	for _, address := range []string{address, fmt.Sprint("127.0.0.1:", d.c.RedisPort)} {
		c := dial(t, address)
		fmt.Fprint(c, "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n")
		port := netip.MustParseAddrPort(address).Port()
		want := fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*4\r\n$9\r\n127.0.0.1\r\n:%d\r\n", port)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
			t.Errorf("%s lists %q, want %q: %v", address, got, want, err)
		}
	}
}
