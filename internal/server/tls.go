package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync/atomic"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
)

// TLS encrypts the connections of ports. Its files may be replaced while it serves: new connections
// get the new certificate, open ones keep the old one. Only the portable engine does handshakes, so
// a slow one delays nobody else.
type TLS struct {
	files   endpoint.Files
	current atomic.Pointer[tls.Config]
	base    *tls.Config // makes new connections use current
}

// authenticated are the cipher suites of TLS 1.2 that encrypt and authenticate at once, with a key that no
// later theft reveals. TLS 1.3 has no others. Those in CBC mode are left out: they have leaked what they
// encrypt more than once.
var authenticated = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// NewTLS loads a certificate chain and its key from PEM files. If clientCA names a PEM file of
// certificate authorities, clients must present a certificate signed by one of them; "" accepts
// every client. NewTLS refuses a key file that users other than its owner may read, see
// secretfile.Read. The error is of package problem, with the fields Cert, Key and ClientCA.
func NewTLS(cert, key, clientCA string) (*TLS, error) {
	t := &TLS{files: endpoint.Files{CA: clientCA, Cert: cert, Key: key}}
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
	pair, err := t.files.Certificate()
	wrong := problem.Of(err)
	c := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: authenticated, Certificates: []tls.Certificate{pair}}
	if t.files.CA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		if c.ClientCAs, err = endpoint.Roots(t.files.CA); err != nil {
			wrong.Add("ClientCA", "%w", err)
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
