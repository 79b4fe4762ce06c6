package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// TLS encrypts the connections of ports. What it was loaded from may be replaced while they serve: new connections get the new
// certificate, and open ones keep theirs. The portable engine does the handshakes, so that a slow one delays nobody.
type TLS struct {
	cert, key, clientCA string
	current             atomic.Pointer[tls.Config]
	base                *tls.Config // has new connections ask current
}

// maxKey bounds the file of the key, in bytes: one of 16,384 bits takes 13 KB.
const maxKey = 1 << 20

// NewTLS loads a certificate chain and its key from PEM files. With clientCA, a PEM file of certificate authorities, clients must
// present a certificate that one of them has signed; "" lets in every client. The key is refused if others than its owner may read it,
// see secretfile.Read. The error is of package problem, with the fields Cert, Key and ClientCA.
func NewTLS(cert, key, clientCA string) (*TLS, error) {
	t := &TLS{cert: cert, key: key, clientCA: clientCA}
	t.base = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load(), nil }}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the files again. If they are not right it returns an error and everything stays as it was. Any goroutine may call it.
func (t *TLS) Reload() error { return problem.Plain(t.load()) }

func (t *TLS) load() error {
	var wrong problem.List
	read := func(which, path string) (b []byte) {
		var err error
		if which == "Key" {
			b, err = secretfile.Read(path, maxKey)
		} else {
			b, err = os.ReadFile(path)
		}
		if err != nil {
			wrong.Add(which, "%w", err)
		}
		return b
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	cert, key := read("Cert", t.cert), read("Key", t.key)
	if wrong == nil {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			wrong.Add("Cert", "%s: with the key %s: %w", t.cert, t.key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if t.clientCA != "" {
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if pem := read("ClientCA", t.clientCA); pem != nil && !c.ClientCAs.AppendCertsFromPEM(pem) {
			wrong.Add("ClientCA", "%s: no certificate in it", t.clientCA)
		}
	}
	if wrong == nil {
		t.current.Store(c)
	}
	return wrong.Err()
}

// Valid is from when until when the certificate in force is.
func (t *TLS) Valid() (from, until time.Time) {
	leaf := t.current.Load().Certificates[0].Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// TLSAlert is what an encrypted connection over the limit is sent in place of Port.Refusal: the record of a fatal alert, internal_error.
// Its client knows then that the server refuses, and did not just go away.
var TLSAlert = []byte{21, 3, 3, 0, 2, 2, 80}

// Server encrypts a connection that was accepted. The handshake is done by the first use.
func (t *TLS) Server(c net.Conn) *tls.Conn { return tls.Server(c, t.base) }
