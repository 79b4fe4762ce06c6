package workerid

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// A failure is a lane's problem. Its text may contain a time, a port or an attempt number, so kind
// decides whether the failure is new and must be reported.
type failure struct {
	kind, text string
	wait       time.Duration // that the store asks of every newcomer; 0 = it is no such thing
}

const noAnswer = "no answer"

func problemOf(err error) failure {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, kind := range []error{ErrLost, ErrShared, ErrNoneYet, ErrNoID, ErrSkew, ErrForeignPool, ErrUnconfirmed} {
		if errors.Is(err, kind) {
			return failure{kind.Error(), text, retryAfter(err, 0)}
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failure{kind: noAnswer, text: text}
	}
	return failure{text: text, kind: strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text)}
}

// reasons holds kinds of failures, the latest first.
type reasons [8]string

// add adds kind and reports whether it is new.
func (r *reasons) add(kind string) bool {
	if slices.Contains(r[:], kind) {
		return false
	}
	copy(r[1:], r[:])
	r[0] = kind
	return true
}

// retryAfter returns the wait that an error names, or else d.
func retryAfter(err error, d time.Duration) time.Duration {
	var hint interface{ RetryAfter() time.Duration }
	if errors.As(err, &hint) && hint.RetryAfter() > 0 {
		return hint.RetryAfter()
	}
	return d
}

func (l *lane) fail(p failure) { l.failing, l.problem = true, p }

// waitAtMost moves the next Acquire forward to the time that the store named, if that is sooner. It
// adds more, because other daemons were told the same time.
func (l *lane) waitAtMost(now Moment, err error, more time.Duration) {
	if after := retryAfter(err, 0); after > 0 {
		l.retryAt = min(l.retryAt, now.Mono+after+more)
	}
}
