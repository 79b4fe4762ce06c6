package zookeeper

import (
	"encoding/binary"
	"errors"
	"net"
	"time"
)

// A session is what a client sends to a server to go on with it over another connection.
type session struct {
	id      int64 // 0 = there is none
	secret  [16]byte
	timeout time.Duration // after which the servers end it
}

// A wire is a TCP connection. It puts a kept session into the first packet that the library sends, and
// learns the session from the first one that the server sends. Read granted only after the library
// has a session. It leaves out the library's pings while calls keep the session, and its deadlines: the
// driver closes connections over which calls get no answer. Both would wake an idle daemon.
type wire struct {
	net.Conn
	resume  session // zero = a new one
	granted session

	sent   bool
	latest time.Time // when something was sent last
	answer []byte    // the beginning of what the server sent
}

// The first packets of ZooKeeper's protocol, with their length:
//
//	client: length 4, version 4, last zxid 8, timeout 4, session 8, length of the secret 4, secret 16
//	server: length 4, version 4, timeout 4, session 8, length of the secret 4, secret 16, read-only 1
const (
	helloBytes   = 48
	helloSession = 20
	helloSecret  = 32
	replyTimeout = 8
	replySession = 12
	replySecret  = 24
	replyBytes   = 40 // read-only may be missing
)

var errHello = errors.New("the library begins a connection in an unknown way")

// ping is what the library sends three times in the life of a session, whatever else it sends.
const ping = "\x00\x00\x00\x08" + "\xff\xff\xff\xfe" + "\x00\x00\x00\x0b" // length, request, kind

func (w *wire) Write(b []byte) (int, error) {
	// the next ping comes before 7/12 of the session's life are over
	if string(b) == ping && time.Since(w.latest) < w.granted.timeout/4 {
		return len(b), nil
	}
	w.latest = time.Now()
	if w.sent {
		return w.Conn.Write(b)
	}
	if len(b) != helloBytes || binary.BigEndian.Uint32(b[helloSession+8:]) != uint32(len(w.resume.secret)) {
		return 0, errHello
	}
	w.sent = true
	binary.BigEndian.PutUint64(b[helloSession:], uint64(w.resume.id))
	copy(b[helloSecret:], w.resume.secret[:])
	return w.Conn.Write(b)
}

func (w *wire) Read(b []byte) (int, error) {
	n, err := w.Conn.Read(b)
	if missing := replyBytes - len(w.answer); missing > 0 {
		w.answer = append(w.answer, b[:min(n, missing)]...)
		if a := w.answer; len(a) == replyBytes &&
			binary.BigEndian.Uint32(a[replySession+8:]) == uint32(len(w.granted.secret)) {
			w.granted.id = int64(binary.BigEndian.Uint64(a[replySession:]))
			w.granted.timeout = time.Duration(binary.BigEndian.Uint32(a[replyTimeout:])) * time.Millisecond
			copy(w.granted.secret[:], a[replySecret:])
		}
	}
	return n, err
}

// SetReadDeadline does nothing.
func (w *wire) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
