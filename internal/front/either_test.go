package front

import (
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
	"github.com/katsubushi/katsubushi/v3/protocol/resp"
)

// The first byte of a connection to the memcached port chooses the protocol, and nothing stays
// between the engine and that protocol's session. The other port speaks only one.
func TestTheFirstByteChoosesTheProtocol(t *testing.T) {
	d := newFront(t, func(c *Config, _ *Given) { c.RedisPort = 1 })
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
		s := d.session(c.port, 0)
		n, reply, _, err := server.Converse(&s, 0, []byte(c.in), nil)
		if n != len(c.in) || string(reply) != c.want || err != nil {
			t.Errorf("port %d, %q: %q, %v", c.port, c.in, reply, err)
		}
		if got, want := fmt.Sprintf("%T", s), fmt.Sprintf("%T", c.session); got != want {
			t.Errorf("port %d, %q: the session is %s, want %s", c.port, c.in, got, want)
		}
	}
}
