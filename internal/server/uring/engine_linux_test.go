package uring

import (
	"bytes"
	"github.com/katsubushi/katsubushi/v3/internal/server"
	"github.com/katsubushi/katsubushi/v3/internal/server/loop"
	"log/slog"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// newTestLoop makes an event loop that does not run.
func newTestLoop(t *testing.T) *ringLoop {
	t.Helper()
	if err := Probe(2); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread() // a ring belongs to a thread
	t.Cleanup(runtime.UnlockOSThread)
	l := &loop.Loop{Config: &server.Config{Counters: new(server.Counters), Log: slog.Default()},
		Share: server.NewBudget(0).Share(nil, nil)}
	l.Acceptors = slices.Grow(l.Acceptors, 1)[:1]
	r, err := newLoop(l, New(server.Config{}).Sizes)
	if err != nil {
		t.Fatal(err)
	}
	u := r.(*ringLoop)
	u.round = 1 // a new connection's last round is 0
	t.Cleanup(u.Close)
	return u
}

// If a connection had two sends in one submission and the socket had no room for the first, it
// might have room for the second.
func TestOneSendForEachConnectionAndTurn(t *testing.T) {
	u := newTestLoop(t)
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
	u := newTestLoop(t)
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

// Kernels lose the end of a client that comes with its last input. On TCP the reply fails then.
func TestClientsOfAUnixSocketAreWatched(t *testing.T) {
	for _, unixSocket := range []bool{false, true} {
		u := newTestLoop(t)
		u.Acceptors[0].Unix = unixSocket
		c := u.Conns.Occupy(0)
		u.begin(c)
		if c.Watching != unixSocket || !c.Receiving {
			t.Errorf("on a unix socket %v: watched %v, received %v", unixSocket, c.Watching, c.Receiving)
		}
		c.Watching, c.Receiving = false, false // there is no socket
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
