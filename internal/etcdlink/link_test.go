package etcdlink

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Whoever finds that a client was refused must not close the next one, which another call has made.
func TestDropIsForOneClient(t *testing.T) {
	var clients []*clientv3.Client
	for range 2 {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://127.0.0.1:1"}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	l := &Link{client: clients[1]}
	l.drop(clients[0])
	l.drop(nil)
	if c, err := l.current(); c != clients[1] || err != nil {
		t.Errorf("%p, %v", c, err)
	}
	l.drop(clients[1])
	if c, err := l.current(); c != nil || err != nil {
		t.Errorf("%p, %v", c, err)
	}
}

// Where the caller's context alone limits the time, nobody knows how long it was.
func TestNoAnswerSaysOnlyATimeThatIsKnown(t *testing.T) {
	target := &Target{Endpoints: []string{"http://h:2379"}}
	for timeout, want := range map[time.Duration]string{
		0:           "etcd at http://h:2379 does not answer: connect: no answer in time",
		time.Second: "etcd at http://h:2379 does not answer: connect: no answer within 1s",
	} {
		if got := target.explain("connect", timeout, context.DeadlineExceeded).Error(); got != want {
			t.Errorf("%v: %q", timeout, got)
		}
	}
}
