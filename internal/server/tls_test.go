package server

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
)

// TestTLS12HasNoCBC: of each cipher suite of TLS 1.2 alone, a client is served only if the suite authenticates
// what it encrypts.
func TestTLS12HasNoCBC(t *testing.T) {
	cert, key, roots := selfsigned.Files(t)
	server, err := NewTLS(cert, key, "")
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(suite.SupportedVersions, tls.VersionTLS13) {
			continue
		}
		a, b := net.Pipe()
		end := make(chan error, 1)
		go func() {
			end <- server.Server(a).Handshake()
			a.Close()
		}()
		client := tls.Client(b, &tls.Config{
			RootCAs: roots, ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID},
		})
		err := client.Handshake()
		b.Close()
		<-end
		aead := strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "_POLY1305_")
		switch {
		case err == nil && !aead:
			t.Errorf("a client gets %s", suite.Name)
		case err == nil:
			served++
		}
	}
	if served < 3 { // of the kind of the certificate's key
		t.Errorf("%d suites are served", served)
	}
}
