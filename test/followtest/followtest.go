// Package followtest tests resolvers of package client that follow the daemons' announcements in a store.
package followtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
)

// A Directory is a store in which daemons announce themselves.
type Directory interface {
	Put(name, text string)
	Delete(name string)
}

// Run tests that a client follows daemons that come, become ready, stop and are gone.
func Run(t *testing.T, r client.Resolver, d Directory) {
	a, b := startServer(t), startServer(t)
	d.Put("nobody", "nonsense")
	d.Put("a", a.text(true))
	d.Put("b", b.text(false))
	c, err := client.New(r,
		client.Config{MaxBackoff: 100 * time.Millisecond, Timeout: time.Minute, DialTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	follow := func(what string, want ...*server) {
		t.Helper()
		childprocess.Until(t, what, func() bool {
			var has, should []string
			for _, s := range c.Stats().Servers {
				has = append(has, s.Addr)
			}
			for _, s := range want {
				should = append(should, s.addr)
			}
			slices.Sort(has)
			slices.Sort(should)
			return slices.Equal(has, should)
		})
		for _, s := range want {
			before := s.asked.Load()
			childprocess.Until(t, what+": a server is asked", func() bool {
				if id, err := c.ID(context.Background()); err != nil || id == 0 {
					t.Fatalf("%s: id %d, %v", what, id, err)
				}
				return s.asked.Load() > before
			})
		}
	}
	follow("at the start", a)
	d.Put("b", b.text(true))
	follow("b is ready", a, b)
	d.Put("a", a.text(false))
	follow("a is about to stop", b)
	childprocess.Until(t, "its connection is closed", func() bool { return a.open.Load() == 0 })
	d.Delete("b")
	d.Put("a2", a.text(true))
	d.Delete("a")
	follow("b is gone, a is back", a)
	d.Delete("a2")
	d.Delete("nobody")
	if id, err := c.ID(context.Background()); id == 0 || err != nil {
		t.Errorf("the list is empty: id %d, %v", id, err)
	}
	c.Close()
	childprocess.Until(t, "goroutines end", func() bool {
		all := make([]byte, 1<<20)
		all = all[:runtime.Stack(all, true)]
		return !bytes.Contains(all, []byte("resolver.(*view)")) && !bytes.Contains(all, []byte("resolver.resolver")) &&
			!bytes.Contains(all, []byte("v3/client.(*"))
	})
}

// A server issues ids over TCP.
type server struct {
	addr        string
	asked, open atomic.Int64
}

var last atomic.Int64

func startServer(t *testing.T) *server {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &server{addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.open.Add(1)
			go s.serve(c)
		}
	}()
	return s
}

func (s *server) serve(c net.Conn) {
	defer s.open.Add(-1)
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		var n int64
		if _, err := fmt.Sscanf(lines.Text(), "ids %d", &n); err == nil {
			s.asked.Add(1)
			fmt.Fprintf(c, "IDS %d 1 %d\r\nEND\r\n", last.Add(n)-n+1, n)
		} else if strings.HasPrefix(lines.Text(), "version") {
			fmt.Fprint(c, "VERSION 3.0.0\r\n")
		}
	}
}

func (s *server) text(ready bool) string {
	return announcement.Announcement{Addr: s.addr, Ready: ready, At: time.Now().UnixMilli()}.String()
}
