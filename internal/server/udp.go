package server

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"time"
)

// udpBuffer is how much of a datagram is read, in bytes. What is longer is cut, and no grammar of ours takes as much.
const udpBuffer = 2048

// ListenUDP opens a socket for datagrams. An empty host means every address, IPv6 and IPv4 alike. The error wraps syscall.EADDRINUSE when
// another program has the address.
func ListenUDP(addr string) (*net.UDPConn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	network := "udp"
	if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
		network = "udp4" // as with ListenTCP
	}
	conn, err := net.ListenPacket(network, addr)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// ServeUDP answers datagrams until ctx has ended, then those that have arrived by then, for DrainTimeout at most; at last it closes conn. answer
// appends the reply to in to out and returns it; nothing appended means that there is none. It is called from one goroutine, and keeps neither
// slice. One goroutine is the limit of the rate, too: what it does not get round to, the kernel drops. Of the Config it uses Now, DrainTimeout,
// Counters and Log.
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
			failing, d.quiet = false, 0
			out = c.reply(conn, from, in[:n], out[:0], answer)
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case errors.Is(err, net.ErrClosed):
			return err
		case !failing: // told once a series
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

// A udpDrain ends the reading of a socket.
type udpDrain struct {
	until time.Time // zero while ctx has not ended
	quiet int       // reads in a row that found nothing
}

// quietReads is how many reads of DrainQuiet each must find nothing. On a busy machine one may be over before the socket is looked at.
const quietReads = 3

// goesOn tells whether another datagram is to be read, and for how long.
func (d *udpDrain) goesOn(ctx context.Context, c *Config, conn *net.UDPConn) bool {
	if ctx.Err() == nil {
		return true
	}
	now := time.Now()
	if d.until.IsZero() {
		d.until = now.Add(c.DrainTimeout)
		d.quiet = 0
	}
	if d.quiet++; d.quiet > quietReads || now.After(d.until) {
		return false
	}
	return conn.SetReadDeadline(now.Add(DrainQuiet)) == nil
}

// reply answers one datagram and counts it. A reply that cannot be sent is lost, as any datagram may be.
func (c *Config) reply(conn *net.UDPConn, to netip.AddrPort, in, out []byte, answer func(now int64, in, out []byte) []byte) []byte {
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
