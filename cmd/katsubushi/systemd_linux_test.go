package main

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A manager stands for systemd, and notes what it is told.
type manager struct {
	*net.UnixConn
	mu   sync.Mutex
	told []string // a datagram each
}

func newManager(t *testing.T) *manager {
	t.Helper()
	addr := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	m := &manager{UnixConn: conn}
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.told = append(m.told, string(b[:n]))
			m.mu.Unlock()
		}
	}()
	return m
}

// index returns the place of the first message from a place on that has a line with this beginning, or -1.
func (m *manager) index(from int, line string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := from; i < len(m.told); i++ {
		if slices.ContainsFunc(strings.Split(m.told[i], "\n"), func(l string) bool { return strings.HasPrefix(l, line) }) {
			return i
		}
	}
	return -1
}

func (m *manager) await(t *testing.T, from int, line string) (at int) {
	t.Helper()
	await(t, "systemd is told "+line, func() bool {
		at = m.index(from, line)
		return at >= 0
	})
	return at
}

// message is the one at a place.
func (m *manager) message(at int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.told[at]
}

// last are the last messages.
func (m *manager) last(n int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.told[max(0, len(m.told)-n):])
}
