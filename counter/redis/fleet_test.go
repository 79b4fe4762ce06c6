package redis

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/test/countertest"
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
	reserve := func() error {
		_, err := s.Reserve(bg, "orders", 1)
		return err
	}
	_, err := s.Define(bg, counter.Sequence("orders"))
	countertest.Refused(t, err, line.ErrNotSafe, "does not keep up")
	countertest.Refused(t, err, counter.ErrUnavailable)
	countertest.Refused(t, reserve(), line.ErrNotSafe)
	if asked.Load() {
		for _, nonsense := range []string{"*0\r\n", "*1\r\n$1\r\n1\r\n"} {
			answer.Store(nonsense)
			countertest.Refused(t, reserve(), line.ErrNotSafe)
		}
		answer.Store("-ERR out of order\r\n")
		countertest.Refused(t, reserve(), nil, "out of order")
	}
	answer.Store("*2\r\n:1\r\n:0\r\n")
	server.Do("CONFIG", "SET", "appendfsync", "everysec")
	redistest.Until(t, "the disk has it", func() bool { return reserve() == nil })
	t.Logf("the proxy answered: %v", asked.Load())
}
