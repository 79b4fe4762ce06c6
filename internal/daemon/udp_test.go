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

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/clock"
	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/workerid"
)

func TestIDsOverUDP(t *testing.T) {
	port := redistest.FreePort(t)
	d, _ := run(t, func(c *Config) { c.UDPPort, c.WorkerIDs = port, []uint64{7, 8} })
	await(t, "both lanes serve", func() bool {
		s := d.windows.Lanes()
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
		if err != nil || lines[0] != fmt.Sprintf("\x00%c\x00\x00\x00\x01\x00\x00VALUE id 0 %d", rune(i+1), len(lines[1])) ||
			lines[2] != "END" {
			t.Fatalf("%q", lines)
		}
		if id <= last || d.c.Layout.Decompose(id).Worker != 8 { // the loop's home lane is the first, the port's the next
			t.Errorf("%d after %d", id, last)
		}
		last = id
	}
	shown := map[string]string{}
	d.stats(nil, func(name, value string) { shown[name] = value })
	for name, want := range map[string]string{"udp_datagrams": "20", "udp_dropped": "10", "cmd_get": "10",
		"get_hits": "10", "get_requests": "10"} {
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
		if err := c.Validate(); !strings.Contains(err.Error(), "UDPPort: ") ||
			!strings.Contains(err.Error(), "not together with "+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What arrives over UDP while an extension is late waits for it as sessions do, and for no longer.
func TestADatagramWaitsForALateExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		d := &Daemon{clock: clock.New()}
		d.issuer = issuer.New(issuer.Config{
			Lanes: 1, RunAhead: time.Second, Layout: generator.Katsubushi(), Now: d.clock.Now, Sleep: time.Sleep,
			Wake: func() { d.catalog.Wake() },
		})
		d.catalog = issuer.NewCatalog(d.clock.Now, d.issuer, false)
		d.sessions = []protocol.Config{{Handler: d.catalog.Handler(0, nil), Counters: new(protocol.Counters)}}
		began := d.clock.Now()
		if err := d.issuer.Publish(0, 7, began, began+1000); err != nil {
			t.Fatal(err)
		}
		ask := func(want string, after time.Duration) {
			t.Helper()
			begun := time.Now()
			got := d.answerDatagram(d.clock.Now(), []byte("\x00\x01\x00\x00\x00\x01\x00\x00get id\r\n"), nil)
			if took := time.Since(begun); !strings.Contains(string(got), want) || took != after {
				t.Errorf("%q after %v; want %q after %v", got, took, want, after)
			}
		}
		ask("VALUE id", 0)
		time.Sleep(3 * time.Second)
		time.AfterFunc(20*time.Millisecond, func() {
			if err := d.issuer.Extend(0, began+1001, d.clock.Now()+1000); err != nil {
				t.Error(err)
			}
		})
		ask("VALUE id", 20*time.Millisecond)
		time.Sleep(3 * time.Second)
		ask("SERVER_ERROR lease expired 2.2s ago", issuer.MaxPark)
		ask("SERVER_ERROR lease expired 2.2s ago", 0)
		var n protocol.Counts
		if d.sessions[0].Counters.AddTo(&n); n[protocol.IDs] != 2 || n[protocol.Refused] != 2 {
			t.Errorf("%d ids, %d refused", n[protocol.IDs], n[protocol.Refused])
		}
	})
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
