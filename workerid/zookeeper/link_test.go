package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/katsubushi/katsubushi/v3/workerid/cas"
)

// A connection is given up after two seconds without a session, or without the answer to the oldest call, then after
// four, and never after more than ten. An answer that comes late ends the wait.
func TestHowLongASilentServerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &driver{}
		for i, want := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, maxPatience, maxPatience} {
			l := &link{began: time.Now(), down: make(chan struct{})}
			if i%2 == 1 { // it has a session, and two calls that get no answer
				l.name = "a"
				answer := make(chan struct{})
				defer close(answer)
				for range 2 {
					ctx, cancel := context.WithCancel(t.Context())
					time.AfterFunc(time.Second, cancel)
					if _, err := call(ctx, l, func(*zk.Conn) (int, error) {
						<-answer
						return 0, nil
					}); err == nil || errors.Is(err, cas.ErrConnection) {
						t.Errorf("given up: %v", err)
					}
				}
				want -= 2 * time.Second // for which these two waited
			}
			if time.Sleep(want); d.tired(l) {
				t.Errorf("%d: given up after %v", i, want)
			}
			if time.Sleep(time.Millisecond); !d.tired(l) || d.tries != i+1 {
				t.Errorf("%d: not given up after %v; %d tries", i, want, d.tries)
			}
		}
		l := &link{name: "a", began: time.Now(), down: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second+time.Millisecond)
		defer cancel()
		time.Sleep(time.Millisecond)
		call(ctx, l, func(*zk.Conn) (int, error) {
			time.Sleep(3 * time.Second)
			return 0, nil
		})
		if time.Sleep(time.Second); l.waiting() != 2*time.Second {
			t.Errorf("it waits for %v", l.waiting())
		}
		if time.Sleep(time.Minute); l.waiting() != 0 || d.tired(l) {
			t.Errorf("it waits for %v after the answer", l.waiting())
		}
	})
}

// A call whose connection breaks may have been carried out. One for a connection that is not ready is not sent.
func TestACallWhoseConnectionBreaks(t *testing.T) {
	l := &link{began: time.Now(), server: "h:1", down: make(chan struct{})}
	answer := make(chan struct{})
	defer close(answer)
	_, err := call(t.Context(), l, func(*zk.Conn) (int, error) {
		l.failure = errClosed
		close(l.down)
		<-answer
		return 0, nil
	})
	if !errors.Is(err, errClosed) || errors.Is(err, cas.ErrConnection) || !strings.Contains(err.Error(), "h:1") {
		t.Errorf("%v", err)
	}
	d := &driver{link: &link{down: make(chan struct{})}}
	if _, err := d.over(""); !errors.Is(err, cas.ErrConnection) {
		t.Errorf("not ready: %v", err)
	}
}

// The library is told at the second time that all servers were tried, so that it waits.
func TestOneServerIsDialedOnce(t *testing.T) {
	s := &single{server: "h:1"}
	for _, want := range []bool{false, true, true} {
		if server, all := s.Next(); server != "h:1" || all != want {
			t.Errorf("%s, %v; want %v", server, all, want)
		}
	}
}

// over is a context that has ended, as reads see it, and does not end calls.
type over struct{ context.Context }

func (over) Err() error { return context.DeadlineExceeded }

// Of keys that were not read nobody may think that they are absent.
func TestReadingThatIsGivenUp(t *testing.T) {
	l := &link{began: time.Now(), down: make(chan struct{})}
	found, err := (&driver{}).read(over{context.Background()}, l, []string{"/a", "/b"})
	if !errors.Is(err, context.DeadlineExceeded) || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// replies is a connection over which the server's bytes come one by one.
type replies struct {
	sink
	left []byte
}

func (r *replies) Read(b []byte) (int, error) {
	n := copy(b[:1], r.left)
	r.left = r.left[n:]
	return n, nil
}

var _ net.Conn = (*replies)(nil)

// The kept session goes into the first packet, and what the server grants is learned from its first one. Nothing of
// another form is sent. Deadlines of the library do not reach the connection.
func TestTheFirstPackets(t *testing.T) {
	secret := [16]byte{1, 2, 3, 15: 9}
	hello := func() []byte {
		b := make([]byte, helloBytes)
		b[3], b[helloSession+8+3] = helloBytes-4, 16
		return b
	}
	reply := make([]byte, replyBytes)
	binary.BigEndian.PutUint32(reply[replyTimeout:], 15_000)
	binary.BigEndian.PutUint64(reply[replySession:], 77)
	reply[replySession+8+3] = 16
	copy(reply[replySecret:], secret[:])
	for _, resume := range []session{{}, {id: 76, secret: secret, timeout: time.Second}} {
		c := &replies{left: append(reply, 0)}
		w := &wire{Conn: c, resume: resume}
		short, other := hello()[:helloBytes-1], hello()
		other[helloSession+8+3] = 15
		for _, bad := range [][]byte{short, other} {
			if _, err := w.Write(bad); err != errHello || len(c.all) > 0 {
				t.Errorf("%d bytes: %v", len(bad), err)
			}
		}
		want := hello()
		binary.BigEndian.PutUint64(want[helloSession:], uint64(resume.id))
		copy(want[helloSecret:], resume.secret[:])
		if n, err := w.Write(hello()); n != helloBytes || err != nil || c.all[0] != string(want) {
			t.Errorf("%d, %v: %q, want %q", n, err, c.all, want)
		}
		for range len(c.left) {
			if _, err := w.Read(make([]byte, 100)); err != nil {
				t.Error(err)
			}
		}
		if w.granted != (session{77, secret, 15 * time.Second}) {
			t.Errorf("%+v", w.granted)
		}
		if err := errors.Join(w.SetReadDeadline(time.Now()), w.SetWriteDeadline(time.Now())); err != nil {
			t.Error(err)
		}
	}
	reply[replySession+8+3] = 15
	w := &wire{Conn: &replies{left: reply}}
	for range len(reply) {
		w.Read(make([]byte, 100))
	}
	if w.granted != (session{}) {
		t.Errorf("a secret of 15 bytes: %+v", w.granted)
	}
}

// Not all daemons begin with the first server.
func TestDaemonsBeginAnywhere(t *testing.T) {
	target := cas.Target{Hosts: make([]string, 100)}
	first := map[int]bool{}
	for range 20 {
		first[newDriver(cas.Settings{}, target).next] = true
	}
	if len(first) < 2 {
		t.Errorf("20 times %v", first)
	}
}
