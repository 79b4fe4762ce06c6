package front

import (
	"context"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/sockets"
	"github.com/katsubushi/katsubushi/v3/protocol/memcache"
)

// openUDP opens the UDP port, if it is on.
func (f *Front) openUDP(b *sockets.Binder) error {
	if f.c.UDPPort == 0 {
		return nil
	}
	return b.Bind(context.Background(), func() (err error) {
		f.udp, err = f.g.Passed.UDP(f.c.udp())
		return err
	})
}

// startUDP answers datagrams until endUDP is called. It starts before ids can be issued: an error that
// says why is better than silence.
func (f *Front) startUDP(fail func(error)) {
	var ctx context.Context
	ctx, f.endUDP = context.WithCancelCause(context.Background())
	served := make(chan struct{})
	f.udpServed = served
	if f.udp == nil {
		close(served)
		return
	}
	conn := f.udp
	f.g.Log.Info("udp listening", "address", conn.LocalAddr().String())
	c := server.Config{Now: f.g.Now, DrainTimeout: f.c.DrainTimeout, Counters: &f.Connections, Log: f.g.Noise}
	go func() {
		defer close(served)
		if err := server.ServeUDP(ctx, c, conn, f.answerDatagram); err != nil {
			fail(fmt.Errorf("udp port: %w", err))
		}
	}()
}

// PauseUDP ends the UDP port, whose socket a successor has too. Requests under way get their answers.
func (f *Front) PauseUDP() {
	f.endUDP(server.ErrPassedOn) // clients that go on asking would make it drain for DrainTimeout
	<-f.udpServed
}

// ResumeUDP undoes PauseUDP, with copies of the sockets.
func (f *Front) ResumeUDP(passed sockets.Passed, fail func(error)) (err error) {
	if f.udp == nil {
		return nil
	}
	if f.udp, err = passed.UDP(f.c.udp()); err == nil {
		f.startUDP(fail)
	}
	return err
}

// answerDatagram answers a request that came over UDP. If it got no reply while requests wait for a late
// extension or for the next tick, it waits too: the kernel keeps what arrives meanwhile. For a sequence's block it
// does not, because other names would have to wait with it.
func (f *Front) answerDatagram(now int64, in, out []byte) []byte {
	for again := true; ; now = f.g.Now() {
		answer := memcache.Datagram(&f.datagrams, now, in, out)
		if len(answer) > len(out) {
			return answer
		}
		if !f.g.Await() {
			if !again {
				return answer
			}
			again = false // what it had to wait for may have come before Await looked
		}
	}
}
