package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// TLS encrypts listeners. What it was loaded from may be replaced while they serve: new connections get the new certificate, and open
// ones keep theirs. Only the portable engine takes such listeners; it does the handshakes, so that a slow one delays nobody.
type TLS struct {
	cert, key, clientCA string
	current             atomic.Pointer[tls.Config]
}

// NewTLS loads a certificate chain and its key from PEM files. With clientCA, a PEM file of certificate authorities, clients must
// present a certificate that one of them has signed; "" lets in every client.
func NewTLS(cert, key, clientCA string) (*TLS, error) {
	t := &TLS{cert: cert, key: key, clientCA: clientCA}
	if err := t.Reload(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the files again. If they are not right it returns an error and everything stays as it was. Any goroutine may call it.
func (t *TLS) Reload() error {
	pair, err := tls.LoadX509KeyPair(t.cert, t.key)
	if err != nil {
		return fmt.Errorf("certificate %s, key %s: %w", t.cert, t.key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if t.clientCA != "" {
		pem, err := os.ReadFile(t.clientCA)
		if err != nil {
			return err
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return errors.New(t.clientCA + ": no certificate in it")
		}
	}
	t.current.Store(c)
	return nil
}

// Valid is from when until when the certificate in force is.
func (t *TLS) Valid() (from, until time.Time) {
	leaf := t.current.Load().Certificates[0].Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// Wrap returns listeners whose connections are encrypted. It takes over lns.
func (t *TLS) Wrap(lns []net.Listener) []net.Listener {
	config := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load(), nil }}
	wrapped := make([]net.Listener, len(lns))
	for i, ln := range lns {
		wrapped[i] = &tlsListener{ln, config}
	}
	return wrapped
}

type tlsListener struct {
	net.Listener
	config *tls.Config
}

// Accept does not wait for the handshake.
func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(c, l.config), nil
}

func (l *tlsListener) SetDeadline(t time.Time) error {
	if d, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return d.SetDeadline(t)
	}
	return errors.ErrUnsupported
}
