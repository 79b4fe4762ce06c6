package etcdlink

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
		for _, err := range []error{context.DeadlineExceeded, status.Error(codes.DeadlineExceeded, "gRPC's words")} {
			if got := target.explain("connect", timeout, err).Error(); got != want {
				t.Errorf("%v: %q", timeout, got)
			}
		}
	}
}

// What a server or gRPC says means one thing each to the caller. Silent is what may have been carried out.
func TestKindsOfErrors(t *testing.T) {
	target := &Target{Endpoints: []string{"http://h:2379"}}
	for kind, all := range map[Kind][]error{
		Full:   {rpctypes.ErrGRPCNoSpace},
		Denied: {rpctypes.ErrGRPCPermissionDenied},
		BadLogin: {
			rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCInvalidAuthToken,
			rpctypes.ErrGRPCUserNotFound,
		},
		OldLogin: {rpctypes.ErrGRPCAuthOldRevision},
		NoLease:  {rpctypes.ErrGRPCLeaseNotFound},
		TooLarge: {status.Error(codes.ResourceExhausted, "grpc: received message larger than max")},
		Refused:  {rpctypes.ErrGRPCNotSupportedForLearner, rpctypes.ErrGRPCRequestTooLarge},
		Silent: {
			rpctypes.ErrGRPCNoLeader, rpctypes.ErrGRPCLeaderChanged, rpctypes.ErrGRPCStopped, rpctypes.ErrGRPCTimeout,
			rpctypes.ErrGRPCTimeoutDueToLeaderFail, rpctypes.ErrGRPCTimeoutDueToConnectionLost, rpctypes.ErrGRPCDeadlineExceeded,
			status.Error(codes.Unavailable, "connection refused"), context.Canceled,
		},
	} {
		for _, err := range all {
			explained := target.explain("k", 0, err)
			said := explained.Error()
			if KindOf(explained) != kind || !errors.Is(explained, err) || !strings.Contains(said, "k: ") ||
				strings.Contains(said, "code = ") {
				t.Errorf("%v: kind %d, want %d: %v", err, KindOf(explained), kind, explained)
			}
		}
	}
}
