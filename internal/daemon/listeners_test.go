package daemon

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// TestListeners: each line of the table is complete, and nothing that must differ is there twice.
func TestListeners(t *testing.T) {
	seen := map[any]bool{}
	for i, l := range listeners() {
		var p Ports
		*l.Number(&p) = 1
		for _, unique := range []any{"-" + l.Flag, "name " + l.name, p} {
			if seen[unique] {
				t.Errorf("%s: another line has %v too", l.name, unique)
			}
			seen[unique] = true
		}
		if l.Help == "" || (l.session == nil) == (l.service == nil) ||
			(l.session != nil) != (l.refusal != "" && l.outOfMemory != "") {
			t.Errorf("%s: an incomplete line: %+v", l.name, l)
		}
		if first := i == 0; first != (l.name == "memcached") || first != l.sock {
			t.Errorf("%s is line %d; the memcached port must be the first, and the only one that can be a unix socket", l.name,
				i)
		}
	}
}

// TestPortNumbers: a number that no port can have is refused by the name of its flag, on or off.
func TestPortNumbers(t *testing.T) {
	for _, l := range listeners() {
		for number, wrong := range map[int]bool{-1: true, 0: false, 1: false, 65535: false, 65536: true} {
			c := testConfig()
			*l.Number(&c.Ports) = number
			refused := slices.ContainsFunc(problem.Of(c.Validate()), func(p *problem.Setting) bool {
				return p.Field == l.Flag && strings.Contains(p.Error(), "0 to 65535 allowed")
			})
			if refused != wrong {
				t.Errorf("-%s %d: %v", l.Flag, number, c.Validate())
			}
		}
	}
}

// TestPortsBesideASocket: with -sock, the other ports of the engine still listen on TCP, and speak
// TLS; the socket does not, and keeps the engine that was asked for. Each port's sessions advertise
// the port's own address.
func TestPortsBesideASocket(t *testing.T) {
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert")
	pool, err := selfsigned.Write(cert, cert+".key", 1)
	if err != nil {
		t.Fatal(err)
	}
	d, socket := run(t, func(c *Config) {
		c.Sock, c.SockMode, c.RedisPort = filepath.Join(dir, "s"), 0o700, redistest.FreePort(t)
		c.TLSCert, c.TLSKey, c.Engine, c.Advertise = cert, cert+".key", "auto", "127.0.0.9:1"
	})
	plain, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	redis := fmt.Sprint("127.0.0.1:", d.c.RedisPort)
	encrypted, err := tls.Dial("tcp", redis, &tls.Config{RootCAs: pool, ServerName: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	defer encrypted.Close()
	for _, c := range []struct {
		conn      net.Conn
		say, want string
	}{
		{plain, "get id\r\n", "VALUE id 0 "}, {encrypted, "GET id\r\n", "$"},
	} {
		fmt.Fprint(c.conn, c.say)
		got := make([]byte, len(c.want))
		if _, err := io.ReadFull(c.conn, got); err != nil || string(got) != c.want {
			t.Errorf("%q: %q, %v", c.say, got, err)
		}
	}
	if d.allEncrypted() || !d.encrypted() {
		t.Error("the daemon does not know that one of its two ports is encrypted")
	}
	for i, want := range []string{"127.0.0.9|127.0.0.9|1", fmt.Sprintf("127.0.0.9|127.0.0.9|%d", d.c.RedisPort)} {
		if got := d.ports[i].sessions[0].Cluster; got != want {
			t.Errorf("port %d advertises %q, want %q", i, got, want)
		}
	}
}
