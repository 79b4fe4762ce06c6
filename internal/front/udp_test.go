package front

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/issuer"
	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

func TestIDsOverUDP(t *testing.T) {
	port := redistest.FreePort(t)
	w := newFront(t, func(c *Config, _ *Given) { c.UDPPort = port })
	serve(t, w)
	c := dial(t, "udp", fmt.Sprint("127.0.0.1:", port))
	last := ""
	for i := range 10 {
		frame := fmt.Sprintf("\x00%c\x00\x00\x00\x01\x00\x00", rune(i+1))
		io.WriteString(c, "\x00\x01\x00\x00\x00\x02\x00\x00get id\r\n") // one of two datagrams: no reply
		io.WriteString(c, frame+"get id\r\n")
		b := make([]byte, 100)
		n, err := c.Read(b)
		rest, ok := strings.CutPrefix(string(b[:n]), frame+"VALUE id 0 19\r\n")
		id, whole := strings.CutSuffix(rest, "\r\nEND\r\n")
		if err != nil || !ok || !whole || len(id) != 19 || strings.Trim(id, "0123456789") != "" || id <= last {
			t.Fatalf("%q after %s, %v", b[:n], last, err)
		}
		last = id
	}
	n := w.Counts()
	if got := w.Connections.Datagrams.Load(); got != 20 || w.Connections.DatagramsDropped.Load() != 10 ||
		n[protocol.CmdGet] != 10 || n[protocol.IDs] != 10 {
		t.Errorf("%d datagrams, %d without an answer, %d gets, %d ids", got, w.Connections.DatagramsDropped.Load(),
			n[protocol.CmdGet], n[protocol.IDs])
	}
}

// What arrives over UDP while an extension is late waits for it as sessions do, and for no longer.
func TestADatagramWaitsForALateExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		d := newFront(t, func(*Config, *Given) {})
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
		if d.datagrams.Counters.AddTo(&n); n[protocol.IDs] != 2 || n[protocol.Refused] != 2 {
			t.Errorf("%d ids, %d refused", n[protocol.IDs], n[protocol.Refused])
		}
	})
}
