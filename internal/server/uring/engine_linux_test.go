package uring

import (
	"bytes"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
	"log/slog"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// If a connection had two sends in one submission and the socket had no room for the first, it
// might have room for the second.
func TestOneSendForEachConnectionAndTurn(t *testing.T) {
	if err := Probe(2); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &loop.Loop{Config: &server.Config{Counters: new(server.Counters), Log: slog.Default()},
		Share: server.NewBudget(0).Share(nil, nil)}
	r, err := newLoop(l, New(server.Config{}).Sizes)
	if err != nil {
		t.Fatal(err)
	}
	u := r.(*ringLoop)
	u.round = 1 // a new connection's last round is 0
	defer u.Close()
	var conns [2]*loop.Conn
	for i := range conns {
		conns[i] = u.Conns.Occupy(int32(i))
		conns[i].Session = new(echoSession)
		conns[i].Peer = 1 // there is no port that says what its address is
		conns[i].Receiving = true
	}
	for range 3 { // results of one turn, alternating
		for _, c := range conns {
			u.hear(c, []byte("echo 1\n"))
		}
	}
	u.endReply()
	if len(u.sends) != 2 || string(u.sends[0].bytes) != "1\r\n" || string(u.sends[1].bytes) != "1\r\n1\r\n1\r\n" {
		t.Errorf("sends %v, want one for each connection, the second with all that came while it was being made", u.sends)
	}
	if c := conns[0]; c.Waiting == nil || string(c.Waiting.In.Bytes()) != "echo 1\necho 1\n" || !c.More {
		t.Error("the first connection's later input is not kept for the next turn")
	}
	for _, c := range conns {
		c.Receiving = false // there is no socket
	}
}

// Linux 6.1 reports a buffer even if there was no input.
func TestReceiveThatFailedWithABuffer(t *testing.T) {
	r := &ring{buffers: make([]byte, 100), bufferSize: 100}
	if id, input := r.received(cqe{res: -int32(unix.EAGAIN), flags: cqeBuffer}); id != 0 || len(input) != 0 {
		t.Errorf("buffer %d, input %q; want buffer 0 and none", id, input)
	}
}

// The last input of a lingering connection may close it. After that, no operation may use its slot.
func TestNothingIsAskedOfAClosedSlot(t *testing.T) {
	if err := Probe(2); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l := &loop.Loop{Config: &server.Config{Counters: new(server.Counters), Log: slog.Default()}}
	r, err := newLoop(l, New(server.Config{}).Sizes)
	if err != nil {
		t.Fatal(err)
	}
	u := r.(*ringLoop)
	u.round = 1
	defer u.Close()
	c := u.Conns.Occupy(0)
	c.Session, c.Receiving, c.Lingering = new(echoSession), true, true
	c.Waiting = &loop.Waiting{Left: 3}
	before := u.ring.tail
	u.received(cqe{tag: tagOf(tagReceive, c), res: 4, flags: cqeBuffer}) // and no cqeMore
	if c.Session != nil || u.Conns.Used != 0 {
		t.Error("the connection is not closed")
	}
	if asked := u.ring.tail - before; asked != 1 || u.ring.sqes[before].op != opClose {
		t.Errorf("%d operations, the first is %d; want one that closes the slot", asked, u.ring.sqes[before].op)
	}
}

// An echoSession answers "echo TEXT" with TEXT.
type echoSession struct{}

func (*echoSession) Feed(now int64, in, out []byte) (n int, reply []byte, err error) {
	text, ok := bytes.CutPrefix(in, []byte("echo "))
	end := bytes.IndexByte(text, '\n')
	if !ok || end < 0 {
		return 0, out, nil
	}
	return len("echo ") + end + 1, append(append(out, text[:end]...), "\r\n"...), nil
}
