package daemon

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

func TestIDsOverUDP(t *testing.T) {
	port := redistest.FreePort(t)
	d, _ := run(t, func(c *Config) { c.UDPPort, c.WorkerIDs = port, []uint64{7, 8} })
	await(t, "both lanes serve", func() bool {
		s := d.keeper.Status()
		return s[0].State == workerid.Serving && s[1].State == workerid.Serving
	})
	c, err := net.Dial("udp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var last uint64
	for i := range 10 {
		c.Write([]byte("\x00\x01\x00\x00\x00\x02\x00\x00get id\r\n")) // one of two datagrams: no reply
		fmt.Fprintf(c, "\x00%c\x00\x00\x00\x01\x00\x00get id\r\n", rune(i+1))
		b := make([]byte, 100)
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b[:n]), "\r\n")
		id, err := strconv.ParseUint(lines[1], 10, 64)
		if err != nil || lines[0] != fmt.Sprintf("\x00%c\x00\x00\x00\x01\x00\x00VALUE id 0 %d", rune(i+1), len(lines[1])) || lines[2] != "END" {
			t.Fatalf("%q", lines)
		}
		if id <= last || d.c.Layout.Decompose(id).Worker != 8 { // the loop's home lane is the first, the port's the next
			t.Errorf("%d after %d", id, last)
		}
		last = id
	}
	shown := map[string]string{}
	d.stats(nil, func(name, value string) { shown[name] = value })
	for name, want := range map[string]string{"udp_datagrams": "20", "udp_dropped": "10", "cmd_get": "10", "get_hits": "10", "get_requests": "10"} {
		if shown[name] != want {
			t.Errorf("%s: %s, want %s", name, shown[name], want)
		}
	}
}

func TestUDPGetsRoundNothing(t *testing.T) {
	dir := t.TempDir()
	for what, change := range map[string]func(*Config){
		"-auth-file": func(c *Config) { c.AuthFile = filepath.Join(dir, "auth") },
		"-tls-cert":  func(c *Config) { c.TLSCert, c.TLSKey = filepath.Join(dir, "cert"), filepath.Join(dir, "key") },
		"-sock":      func(c *Config) { c.Sock = filepath.Join(dir, "sock") },
	} {
		c := Config{UDPPort: 11212}
		change(&c)
		if err := c.Validate(); !strings.Contains(err.Error(), "UDPPort: ") || !strings.Contains(err.Error(), "not together with "+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestAUDPPortInUseIsAnError(t *testing.T) {
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d := testConfig()
	d.UDPPort = c.LocalAddr().(*net.UDPAddr).Port
	synctest.Test(t, func(t *testing.T) { // it retries for a while
		if _, err := New(d); !errors.Is(err, syscall.EADDRINUSE) {
			t.Error(err)
		}
	})
}
