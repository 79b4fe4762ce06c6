package redislink

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// errNoNode is returned by a cluster that is being made, or has lost a node.
var errNoNode = errors.New("no node has the slot")

// temporaryWords are the first words of answers after which a server may soon serve again.
var temporaryWords = []string{
	"LOADING", "MASTERDOWN", "READONLY", "BUSY", "TRYAGAIN", "CLUSTERDOWN", "MOVED", "ASK", "MISCONF", "OOM", "NOREPLICAS",
	"max number of clients",
}

// Temporary reports whether an error of this package may go away though nobody changes a setting: no
// connection, no answer, no master, or a server that takes no commands now. A wrong password, a missing
// right, an unknown master and a certificate that is not trusted stay.
func Temporary(err error) bool {
	var answer goredis.Error
	var header tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var network net.Error
	switch {
	case errors.As(err, &certificate) || errors.As(err, &header):
		return false
	case isAlert(err):
		return false
	case errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded):
		return true
	case errors.Is(err, errNoNode):
		return true
	case errors.As(err, &answer):
		for _, word := range temporaryWords {
			if goredis.HasErrorPrefix(answer, word) {
				return true
			}
		}
	}
	return false
}

// isAlert reports whether an error is an alert of TLS, "remote error".
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && strings.HasSuffix(op.Op, " error")
}
