package redis

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
)

// Since Redis 7.2 WAITAOF tells whether the disk has a definition. Where the server is older, a proxy
// answers that one command.
func TestWAITAOF(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	proxy := redistest.NewProxy(t, server.Addr())
	answer := &atomic.Value{}
	answer.Store("*2\r\n:0\r\n:0\r\n")
	asked := &atomic.Bool{}
	proxy.Rewrite(func(piece []byte) []byte {
		if bytes.HasPrefix(piece, []byte("-ERR unknown command 'WAITAOF'")) ||
			bytes.HasPrefix(piece, []byte("-ERR unknown command `WAITAOF`")) {
			asked.Store(true)
			return []byte(answer.Load().(string))
		}
		return piece
	})
	s := open(t, Config{URL: "redis://" + proxy.Addr() + "/0?ns=aof", Operator: true})
	_, err := s.Define(bg, counter.Sequence("orders"))
	want(t, "define", err, line.ErrNotSafe)
	if err == nil || !strings.Contains(err.Error(), "does not keep up") || !errors.Is(err, counter.ErrUnavailable) {
		t.Error(err)
	}
	want(t, "reserve", reserve(s, 1), line.ErrNotSafe)
	if asked.Load() {
		for _, nonsense := range []string{"*0\r\n", "*1\r\n$1\r\n1\r\n"} {
			answer.Store(nonsense)
			want(t, nonsense, reserve(s, 1), line.ErrNotSafe)
		}
		answer.Store("-ERR out of order\r\n")
		if err := reserve(s, 1); err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Error(err)
		}
	}
	answer.Store("*2\r\n:1\r\n:0\r\n")
	server.Do("CONFIG", "SET", "appendfsync", "everysec")
	redistest.Until(t, "the disk has it", func() bool { return reserve(s, 1) == nil })
	t.Logf("the proxy answered: %v", asked.Load())
}
