package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	certFile   = "cert.pem"
	keyFile    = "key.pem"
	primeLimit = 2 * time.Second
)

// makeCertificate writes a certificate for 127.0.0.1 and its key into dir, and returns what a
// client needs to trust it.
func makeCertificate(dir string) (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(filepath.Join(dir, certFile), cert, 0o644); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, keyFile), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		0o600); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}, nil
}

// dialGo connects through the net package, and TLS where the endpoint has it.
func dialGo(to endpoint, trust *tls.Config) (net.Conn, error) {
	d := &net.Dialer{Timeout: 5 * time.Second}
	if to.via == overTLS {
		return tls.DialWithDialer(d, "tcp", to.address, trust)
	}
	return d.Dial(to.network(), to.address)
}

// prime makes a server answer what the benchmark asks for. It finds out whether the server issues
// ids; one that does not is given a value of the same length under every key.
func (pr *process) prime(p peer) error {
	conn, err := dialGo(pr.at, pr.trust)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(primeLimit))
	if pr.at.via == overHTTP {
		return pr.primeHTTP(conn)
	}
	c := &lineClient{conn: conn, r: bufio.NewReader(conn)}
	if p.speech == "redis" {
		answer, err := c.ask("SET id " + benchID[1:])
		if err == nil && answer != "+OK" {
			err = fmt.Errorf("SET was answered %q", answer)
		}
		return err
	}
	first, err := c.get("id")
	if err != nil {
		return err
	}
	second, err := c.get("id")
	if err != nil {
		return err
	}
	for _, k := range pr.names {
		if _, err := c.get(k); err != nil { // a sequence has no block before somebody asks for one
			return err
		}
	}
	if pr.issues = first != second; pr.issues || p.canned {
		return nil
	}
	for _, k := range append(keyNames("id", 1), keyNames("id", multiKeys)...) {
		if answer, err := c.ask("set " + k + " 0 0 19\r\n" + benchID); err != nil || answer != "STORED" {
			return fmt.Errorf("set was answered %q: %v", answer, err)
		}
	}
	return nil
}

// A lineClient asks slowly and simply.
type lineClient struct {
	conn net.Conn
	r    *bufio.Reader
}

func (c *lineClient) ask(request string) (line string, err error) {
	if _, err := c.conn.Write([]byte(request + "\r\n")); err != nil {
		return "", err
	}
	return c.line()
}

func (c *lineClient) line() (string, error) {
	s, err := c.r.ReadString('\n')
	return strings.TrimRight(s, "\r\n"), err
}

// get returns a key's value, "" if there is none.
func (c *lineClient) get(key string) (value string, err error) {
	line, err := c.ask("get " + key)
	if err != nil || line == "END" {
		return "", err
	}
	if !strings.HasPrefix(line, "VALUE "+key+" ") {
		return "", fmt.Errorf("get was answered %q", line)
	}
	if value, err = c.line(); err != nil {
		return "", err
	}
	if end, err := c.line(); err != nil || end != "END" {
		return "", fmt.Errorf("a VALUE was followed by %q: %v", end, err)
	}
	return value, nil
}
