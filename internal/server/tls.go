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

// TLS encrypts the connections of ports. Its files may be replaced while it serves: new connections
// get the new certificate, open ones keep the old one. Only the portable engine does handshakes, so
// a slow one delays nobody else.
type TLS struct {
	cert, key, clientCA string
	current             atomic.Pointer[tls.Config]
	base                *tls.Config // makes new connections use current
}

// authenticated are the cipher suites of TLS 1.2 that encrypt and authenticate at once, with a key that no
// later theft reveals. TLS 1.3 has no others. Those in CBC mode are left out: they have leaked what they
// encrypt more than once.
var authenticated = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// maxKey limits the size of the key file, in bytes: a key of 16,384 bits takes 13 KB.
const maxKey = 1 << 20

// NewTLS loads a certificate chain and its key from PEM files. If clientCA names a PEM file of
// certificate authorities, clients must present a certificate signed by one of them; "" accepts
// every client. NewTLS refuses a key file that users other than its owner may read, see
// secretfile.Read. The error is of package problem, with the fields Cert, Key and ClientCA.
func NewTLS(cert, key, clientCA string) (*TLS, error) {
	t := &TLS{cert: cert, key: key, clientCA: clientCA}
	t.base = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return t.current.Load(), nil
	}}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// Reload reads the files again. If anything is wrong with them, it returns an error and changes
// nothing. Any goroutine may call it.
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
	c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: authenticated}
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

// Valid returns the validity period of the current certificate.
func (t *TLS) Valid() (from, until time.Time) {
	leaf := t.current.Load().Certificates[0].Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// Client returns the settings of connections to another server of the same fleet: this one shows the
// current certificate, and trusts roots; nil = the system's.
func (t *TLS) Client(roots *x509.CertPool) *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: t.current.Load().Certificates}
}

// TLSAlert is sent to an encrypted connection over the limit instead of Port.Refusal: a fatal alert
// record, internal_error. It shows the client that the server refused it and did not just
// disappear.
var TLSAlert = []byte{21, 3, 3, 0, 2, 2, 80}

// Config returns the settings of accepted connections, for servers that do the handshake themselves.
// They follow the files. The caller must not change them.
func (t *TLS) Config() *tls.Config { return t.base }

// Server encrypts an accepted connection. The first read or write does the handshake.
func (t *TLS) Server(c net.Conn) *tls.Conn { return tls.Server(c, t.base) }
