package etcdlink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Kind is what an error means to the caller.
type Kind int

// The kinds.
const (
	Silent   Kind = iota // no answer, or none that helps; a write may have been carried out
	Full                 // etcd has no space for writes
	Denied               // the user may not do that
	BadLogin             // the user, the password or the token is wrong; log in again
	OldLogin             // users or roles have changed; log in again
	NoLease              // there is no such lease
	TooLarge             // the answer is larger than allowed
	Refused              // refused for another reason, such as a member that may only learn
)

// An Error is one of etcd's, in words.
type Error struct {
	Kind  Kind
	text  string
	cause error
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the library's error.
func (e *Error) Unwrap() error { return e.cause }

// KindOf returns the Kind of an error. One that is not etcd's is Silent.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Silent
}

func kindOf(err error) Kind {
	is := func(list ...error) bool {
		for _, e := range list {
			if errors.Is(rpctypes.Error(err), e) {
				return true
			}
		}
		return false
	}
	switch {
	case is(rpctypes.ErrNoSpace):
		return Full
	case is(rpctypes.ErrPermissionDenied):
		return Denied
	case is(rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrUserNotFound):
		return BadLogin
	case is(rpctypes.ErrAuthOldRevision):
		return OldLogin
	case is(rpctypes.ErrLeaseNotFound):
		return NoLease
	}
	var etcds rpctypes.EtcdError
	switch own := errors.As(rpctypes.Error(err), &etcds); {
	case own && etcds.Code() == codes.Unavailable:
		return Silent
	case own:
		return Refused
	case status.Code(err) == codes.ResourceExhausted: // gRPC's: the client does not take so much
		return TooLarge
	}
	return Silent
}

// explain words an error of etcd's client. key is what the call was about, timeout how long it was
// given, 0 if only the caller knows.
func (t *Target) explain(key string, timeout time.Duration, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Kind: kindOf(err), cause: err}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	switch e.Kind {
	case Full:
		e.text = fmt.Sprintf("%s: etcd has no space left for writes (NOSPACE): compact and defragment it, or raise its "+
			"--quota-backend-bytes, and then `etcdctl alarm disarm`", key)
	case Denied:
		e.text = fmt.Sprintf("%s: etcd does not permit it to %s: `etcdctl role grant-permission ROLE --prefix=true "+
			"readwrite %s`", key, t.who(), t.Root)
	case BadLogin:
		if errors.Is(rpctypes.Error(err), rpctypes.ErrUserEmpty) {
			e.text = fmt.Sprintf("%s: etcd wants a user and a password, and the URL names no user", key)
		} else {
			e.text = fmt.Sprintf("%s: etcd refuses %s: wrong user or password", key, t.who())
		}
	case OldLogin, NoLease, TooLarge, Refused:
		e.text = fmt.Sprintf("%s: etcd refuses: %s", key, text)
	default:
		if errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded {
			if text = "no answer in time"; timeout > 0 {
				text = fmt.Sprintf("no answer within %v", timeout)
			}
		}
		e.text = fmt.Sprintf("etcd at %s does not answer: %s: %s", t.hosts(), key, text)
	}
	return e
}
