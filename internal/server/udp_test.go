package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"testing"
	"time"
)

// startUDP serves datagrams on the loopback address, and returns a client socket.
func startUDP(t *testing.T, counters *Counters, answer func(now int64, in, out []byte) []byte) (client *net.UDPConn,
	stop, wait func()) {
	conn, err := ListenUDP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	c := Config{Now: func() int64 {
		return 1234
	}, DrainTimeout: time.Minute, Counters: counters, Log: slog.New(slog.DiscardHandler)}
	go func() { ended <- ServeUDP(ctx, c, conn, answer) }()
	client, err = net.DialUDP("udp4", nil, conn.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		client.Close()
	})
	client.SetDeadline(time.Now().Add(time.Minute))
	return client, cancel, func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestDatagramsAreAnsweredAndCounted(t *testing.T) {
	var n Counters
	client, stop, wait := startUDP(t, &n, func(now int64, in, out []byte) []byte {
		if now != 1234 || len(out) != 0 {
			t.Errorf("at %d, with %q before", now, out)
		}
		if bytes.HasPrefix(in, []byte("silence")) {
			return out
		}
		return append(append(out, "to "...), in[:min(len(in), 10)]...)
	})
	for _, request := range []string{"one", "silence", "two", string(make([]byte, 5000))} {
		if _, err := client.Write([]byte(request)); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"to one", "to two", "to " + string(make([]byte, 10))} {
		b := make([]byte, 100)
		if k, err := client.Read(b); err != nil || string(b[:k]) != want {
			t.Errorf("%q, %v, want %q", b[:k], err, want)
		}
	}
	stop()
	wait()
	if n.Datagrams.Load() != 4 || n.DatagramsDropped.Load() != 1 || n.BytesRead.Load() != 3+7+3+udpBuffer ||
		n.BytesWritten.Load() != 6+6+13 {
		t.Errorf("%d datagrams, %d dropped, %d bytes read, %d written", n.Datagrams.Load(), n.DatagramsDropped.Load(),
			n.BytesRead.Load(), n.BytesWritten.Load())
	}
}

// TestDatagramsThatHaveArrivedAreAnswered: even when serving ends.
func TestDatagramsThatHaveArrivedAreAnswered(t *testing.T) {
	const waiting = 20
	var n Counters
	asked, goOn := make(chan bool, waiting+1), make(chan bool, waiting+1)
	client, stop, wait := startUDP(t, &n, func(_ int64, in, out []byte) []byte {
		asked <- true
		<-goOn
		return append(out, in...)
	})
	client.Write([]byte{0})
	<-asked // it is busy with the first
	for i := range waiting {
		client.Write([]byte{byte(i + 1)})
	}
	stop()
	for range waiting + 1 {
		goOn <- true
		b := make([]byte, 10)
		if _, err := client.Read(b); err != nil {
			t.Fatal(err)
		}
	}
	wait()
}

// TestDatagramsAreLeftForAnotherProcess: serving ends with the request under way, although others have
// arrived and a client goes on asking. A copy of the socket has them.
func TestDatagramsAreLeftForAnotherProcess(t *testing.T) {
	conn, err := ListenUDP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f, err := conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	another, err := net.FilePacketConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer another.Close()
	client, err := net.DialUDP("udp4", nil, conn.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	var n Counters
	c := Config{Now: func() int64 {
		return 0
	}, DrainTimeout: time.Minute, Counters: &n, Log: slog.New(slog.DiscardHandler)}
	client.Write([]byte{0})
	err = ServeUDP(ctx, c, conn, func(_ int64, in, out []byte) []byte {
		client.Write([]byte{in[0] + 1}) // one more arrives for each that is answered
		cancel(ErrPassedOn)
		return out
	})
	if got := n.Datagrams.Load(); err != nil || got != 1 {
		t.Errorf("%d datagrams were read, want 1; %v", got, err)
	}
	b := make([]byte, 10)
	another.SetDeadline(time.Now().Add(time.Minute))
	if k, _, err := another.ReadFrom(b); err != nil || k != 1 || b[0] != 1 {
		t.Errorf("the other process reads %v, %v", b[:k], err)
	}
}
