package daemon

import (
	"context"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
)

func (d *Daemon) listenUDP() error {
	if d.c.UDPPort == 0 || d.c.origin() != nil { // takeOver opens it
		return nil
	}
	return d.openUDP()
}

// openUDP opens the UDP port.
func (d *Daemon) openUDP() (err error) {
	if d.c.UDPPort == 0 {
		return nil
	}
	return d.binder.Bind(context.Background(), func() (err error) {
		d.udp, err = d.c.passed().UDP(d.c.udpPlace())
		return err
	})
}

// startUDP answers datagrams until endUDP is called. It starts before ids can be issued: an error that
// says why is better than silence.
func (d *Daemon) startUDP(fail func(error)) {
	var ctx context.Context
	ctx, d.endUDP = context.WithCancelCause(context.Background())
	served := make(chan struct{})
	d.udpServed = served
	if d.udp == nil {
		close(served)
		return
	}
	conn := d.udp
	d.c.Log.Info("udp listening", "address", conn.LocalAddr().String())
	c := server.Config{Now: d.clock.Now, DrainTimeout: d.c.DrainTimeout, Counters: &d.connections, Log: d.noise}
	go func() {
		defer close(served)
		if err := server.ServeUDP(ctx, c, conn, d.answerDatagram); err != nil {
			fail(fmt.Errorf("udp port: %w", err))
		}
	}()
}

// answerDatagram answers a request that came over UDP. If it got no reply while requests wait for a late
// extension, it waits too: the kernel keeps what arrives meanwhile. For a sequence's block it does not,
// because other names would have to wait with it.
func (d *Daemon) answerDatagram(now int64, in, out []byte) []byte {
	for {
		answer := memcache.Datagram(&d.sessions[d.c.Loops], now, in, out)
		if len(answer) > len(out) || !d.catalog.AwaitWhile(d.issuer.Late) {
			return answer
		}
		now = d.clock.Now()
	}
}
