package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// udpBuffer is how many bytes of a datagram are read. Longer ones are cut, but no grammar here
// accepts that many.
const udpBuffer = 2048

// ListenUDP opens a UDP socket. An empty host means every address, IPv6 and IPv4 alike. The error
// wraps syscall.EADDRINUSE when another program uses the address.
func ListenUDP(addr string) (*net.UDPConn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	network := "udp"
	if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
		network = "udp4" // see ListenTCP
	}
	conn, err := net.ListenPacket(network, addr)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// ErrPassedOn, as the cause of the end of ServeUDP's context, says that another process has the socket
// too, and answers what has arrived.
var ErrPassedOn = errors.New("another process has the socket")

// ServeUDP answers datagrams until ctx has ended. It then answers those that have already arrived,
// for at most DrainTimeout and unless the cause is ErrPassedOn, and closes conn. answer appends the
// reply to out and returns it; if it appends nothing, there is no reply; so it is with a request
// that must wait, which UDP cannot. One goroutine calls answer, which keeps neither slice. That one
// goroutine also limits the rate: the kernel drops what it cannot keep up with. ServeUDP uses Now,
// DrainTimeout, Counters and Log of the Config.
func ServeUDP(ctx context.Context, c Config, conn *net.UDPConn, answer func(now int64, in, out []byte) []byte) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })() // wake it
	in, out := make([]byte, udpBuffer), make([]byte, 0, udpBuffer)
	var d udpDrain
	failing := false
	for d.goesOn(ctx, &c, conn) {
		n, from, err := conn.ReadFromUDPAddrPort(in)
		switch {
		case err == nil:
			failing, d.quiet = false, false
			out = c.reply(conn, from, in[:n], out[:0], answer)
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			d.quiet = true
			continue
		case errors.Is(err, net.ErrClosed):
			return err
		case !failing: // log once per series
			failing = true
			c.Log.Warn("cannot read datagrams, trying again", "error", err)
		}
		select {
		case <-time.After(maxBackoff):
		case <-ctx.Done():
		}
	}
	return nil
}

// A udpDrain decides when to stop reading from a socket.
type udpDrain struct {
	until time.Time // zero until ctx has ended
	quiet bool      // the last read found nothing
}

// goesOn reports whether to read another datagram, and sets the read deadline.
func (d *udpDrain) goesOn(ctx context.Context, c *Config, conn *net.UDPConn) bool {
	if ctx.Err() == nil {
		return true
	}
	if errors.Is(context.Cause(ctx), ErrPassedOn) {
		return false
	}
	now := time.Now()
	if d.until.IsZero() {
		d.until = now.Add(c.DrainTimeout)
	} else if d.quiet && !HasInput(conn) || now.After(d.until) {
		return false
	}
	return conn.SetReadDeadline(now.Add(DrainQuiet)) == nil
}

// reply answers one datagram and counts it. A reply that cannot be sent is lost, like any datagram.
func (c *Config) reply(conn *net.UDPConn, to netip.AddrPort, in, out []byte,
	answer func(now int64, in, out []byte) []byte) []byte {
	c.Counters.Datagrams.Add(1)
	c.Counters.BytesRead.Add(uint64(len(in)))
	if out = answer(c.Now(), in, out); len(out) == 0 {
		c.Counters.DatagramsDropped.Add(1)
		return out
	}
	n, err := conn.WriteToUDPAddrPort(out, to)
	if err != nil {
		c.Counters.DatagramsDropped.Add(1)
	}
	c.Counters.BytesWritten.Add(uint64(n))
	return out
}
