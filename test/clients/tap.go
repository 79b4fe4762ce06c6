//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
)

const tapLimit = 32 << 10 // bytes kept of what each side of a set-up said

// A tap sits between a set-up and the daemon and keeps what they said to each other, to show it
// when a set-up fails and to tell which protocol was really spoken. It is used on request only: a
// relay changes how bytes arrive.
type tap struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	talk     []utterance
	size     int
}

// An utterance is what one side of a connection said before the other one did.
type utterance struct {
	connection int
	client     bool
	bytes      []byte
}

func newTap(port int) (*tap, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	t := &tap{listener: l, target: net.JoinHostPort(host, strconv.Itoa(port))}
	go t.accept()
	return t, nil
}

func (t *tap) port() int { return t.listener.Addr().(*net.TCPAddr).Port }

func (t *tap) accept() {
	for n := 1; ; n++ {
		client, err := t.listener.Accept()
		if err != nil {
			return
		}
		daemon, err := net.Dial("tcp", t.target)
		if err != nil {
			client.Close()
			continue
		}
		go t.relay(n, true, client.(*net.TCPConn), daemon.(*net.TCPConn))
		go t.relay(n, false, daemon.(*net.TCPConn), client.(*net.TCPConn))
	}
}

func (t *tap) relay(connection int, fromClient bool, from, to *net.TCPConn) {
	defer to.CloseWrite()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			t.keep(connection, fromClient, buffer[:n])
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				to.Close()
			}
			return
		}
	}
}

func (t *tap) keep(connection int, client bool, said []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.size >= tapLimit {
		return
	}
	t.size += len(said)
	if n := len(t.talk) - 1; n >= 0 && t.talk[n].connection == connection && t.talk[n].client == client {
		t.talk[n].bytes = append(t.talk[n].bytes, said...)
		return
	}
	t.talk = append(t.talk, utterance{connection, client, bytes.Clone(said)})
}

// protocols names the protocols that the set-up spoke, in the words of setup.protocol.
func (t *tap) protocols() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var meta, text, binary bool
	first := map[int]bool{} // connections whose first byte has been seen
	for _, u := range t.talk {
		if !u.client {
			continue
		}
		if !first[u.connection] {
			first[u.connection] = true
			isBinary := u.bytes[0] == 0x80
			binary = binary || isBinary
			text = text || !isBinary
		}
		meta = meta || bytes.HasPrefix(u.bytes, []byte("mg "))
	}
	switch {
	case meta:
		return "meta"
	case text && binary:
		return "text, binary"
	case binary:
		return "binary"
	}
	return "text"
}

// String is the conversation, a line for each time that somebody spoke; C is the set-up, S the daemon.
func (t *tap) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, u := range t.talk {
		who := 'S'
		if u.client {
			who = 'C'
		}
		fmt.Fprintf(&b, "%c%d: %q\n", who, u.connection, u.bytes)
	}
	return b.String()
}
