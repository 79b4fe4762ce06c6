package client

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrClosed is the error of calls that Close ended, and of all later ones. Do not retry.
	ErrClosed = errors.New("client is closed")

	// ErrUnready means that a server answered SERVER_ERROR: it runs, but cannot issue ids at the
	// moment. Its reason is in the error's text. Retry later; the client itself asks such a server
	// again after at most a second.
	ErrUnready = errors.New("not ready")

	// ErrRefused means that a server answered CLIENT_ERROR, such as "no such generator" or a missing
	// right. Its reason is in the error's text. A retry does not help.
	ErrRefused = errors.New("refused")

	// ErrAnswer means that a server's answer is not exactly what was asked for, or repeats the last id of
	// the answer before it: a memcached at this address, which stores values, does. The client used no id
	// of it and closed the connection. Another server may do better.
	ErrAnswer = errors.New("wrong answer")

	// ErrTimeout means that a server did not answer within Config.Timeout, or that ids for the stock were
	// older than Config.MaxAge when they came. A retry may help.
	ErrTimeout = errors.New("no answer in time")

	// ErrCount is the error of IDs for a number that is not between 1 and MaxIDs.
	ErrCount = errors.New("number of ids must be 1 to 1,000,000")
)

// errUnknown is the answer ERROR: the server does not know the command.
var errUnknown = errors.New("the server does not know the command")

// problems are several errors that are reported as one: all that is wrong with a Config, or what
// each server had to say.
type problems []error

func (p problems) Error() string {
	const most = 20 // of a thousand servers each one may have failed
	var texts []string
	for _, err := range p[:min(len(p), most)] {
		texts = append(texts, err.Error())
	}
	if len(p) > most {
		texts = append(texts, fmt.Sprintf("and %d more", len(p)-most))
	}
	return "katsubushi client: " + strings.Join(texts, "; ")
}

func (p problems) Unwrap() []error { return p }

// or is nil if there are no problems.
func (p problems) or() error {
	if len(p) == 0 {
		return nil
	}
	return p
}
