package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/etcdlink"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
)

// Config is what a Store is made of. Only URL is required.
type Config struct {
	// URL says where etcd is and which keys are used:
	//
	//	etcd://user@host:2379,host2:2379/prefix?ns=NAME
	//	etcds://host:2379?ns=NAME&ca=FILE&cert=FILE&key=FILE      with TLS
	//
	// The user, the ports, the prefix (katsubushi), ns (default) and the files may be left out. ca is
	// the authority of etcd's certificates, by default the system's; cert and key are this client's,
	// and read again for each connection.
	URL string
	// PasswordFile has the user's password; package secretfile says which permissions the file needs.
	// It is read at the start, and again after etcd has refused the password.
	PasswordFile string
	Timeout      time.Duration // after which etcd is given up for one attempt; default 2 s
	Log          *slog.Logger  // default none
}

// DefaultNamespace is the namespace of a URL that names none.
const DefaultNamespace = "default"

const (
	defaultPrefix  = "katsubushi"
	defaultPort    = "2379"
	defaultTimeout = 2 * time.Second
)

// A target is what a URL says.
type target struct {
	endpoints     []string // http://host:port
	user          string
	root          string // of all keys: /PREFIX/NS/
	encrypted     bool
	ca, cert, key string // files; empty = none
}

// parse reads the URL. No error contains what may be a password.
func parse(text string) (t target, err error) {
	scheme, rest, _ := strings.Cut(text, "://")
	protocol := map[string]string{"etcd": "http://", "etcds": "https://"}[scheme]
	if protocol == "" {
		return t, errors.New("a URL begins with etcd:// or etcds://")
	}
	t.encrypted = scheme == "etcds"
	rest, query, _ := strings.Cut(rest, "?")
	hosts, prefix, named := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user := hosts[:i]
		hosts = hosts[i+1:]
		if strings.Contains(user, ":") {
			return t, errors.New("a password in the URL can be read by others: it belongs into a file")
		}
		if t.user, err = url.PathUnescape(user); err != nil || user == "" {
			return t, errors.New("what stands before @ is no user")
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host, err = withPort(host); err != nil {
			return t, err
		}
		t.endpoints = append(t.endpoints, protocol+host)
	}
	if prefix = strings.TrimSuffix(prefix, "/"); !named || prefix == "" {
		prefix = defaultPrefix
	}
	ns, err := t.options(query)
	if err != nil {
		return t, err
	}
	for part := range strings.SplitSeq(prefix+"/"+ns, "/") {
		if part == "" || len(part) > 64 || strings.Trim(part, keyBytes) != "" {
			return t, fmt.Errorf("%q: the prefix and ns are letters, digits and \"_.-\", 64 at most", part)
		}
	}
	t.root = "/" + prefix + "/" + ns + "/"
	return t, nil
}

const keyBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

// link returns how to connect.
func (t target) link(passwordFile string) etcdlink.Target {
	return etcdlink.Target{Endpoints: t.endpoints, User: t.user, Root: t.root, TLS: t.tls, Password: func() (string, error) {
		if passwordFile == "" {
			return "", nil
		}
		return secretfile.Password(passwordFile)
	}}
}

// withPort returns HOST:PORT.
func withPort(host string) (string, error) {
	colon := strings.LastIndexByte(host, ':')
	if colon <= strings.LastIndexByte(host, ']') {
		host, colon = host+":"+defaultPort, len(host)
	}
	port, err := strconv.ParseUint(host[colon+1:], 10, 16)
	name := host[:colon]
	brackets := strings.Contains(name, ":") == strings.HasPrefix(name, "[") // around addresses of IPv6, and only those
	if err != nil || port == 0 || name == "" || strings.ContainsAny(name, " \t@") || !brackets {
		return "", errors.New("the URL names no host: etcd://HOST:PORT,HOST:PORT")
	}
	return host, nil
}

// options reads what follows the question mark.
func (t *target) options(query string) (ns string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("what follows ? cannot be read")
	}
	ns = DefaultNamespace
	known := map[string]*string{"ns": &ns, "ca": &t.ca, "cert": &t.cert, "key": &t.key}
	for name, v := range values {
		to := known[name]
		if to == nil || len(v) > 1 || v[0] == "" {
			return "", fmt.Errorf("?%s: ns, ca, cert and key are allowed, once each", name)
		}
		*to = v[0]
	}
	switch {
	case !t.encrypted && t.ca+t.cert+t.key != "":
		return "", errors.New("ca, cert and key belong to etcds://")
	case (t.cert == "") != (t.key == ""):
		return "", errors.New("cert and key belong together")
	}
	return ns, nil
}

// Validate returns everything that is wrong with the settings, as an error of package problem. It
// reads no file.
func (c Config) Validate() error {
	var problems problem.List
	t, err := parse(c.URL)
	if err != nil {
		problems.Add("URL", "%w", err)
	}
	switch {
	case err == nil && t.user != "" && c.PasswordFile == "":
		problems.Add("URL", "user %s has no password: it belongs into a file", t.user)
	case err == nil && t.user == "" && c.PasswordFile != "":
		problems.Add("PasswordFile", "a password of nobody: the URL names no user, as etcd://USER@HOST does")
	}
	return problems.Err()
}

// ReadSecrets reads the files that the settings name, and returns what is wrong with them, in the same
// form as Validate.
func (c Config) ReadSecrets() error {
	var problems problem.List
	t, err := parse(c.URL)
	if err != nil {
		return nil // Validate says so
	}
	if c.PasswordFile != "" {
		if _, err := secretfile.Password(c.PasswordFile); err != nil {
			problems.Add("PasswordFile", "%w", err)
		}
	}
	if _, err := t.tls(); err != nil {
		problems.Add("URL", "%w", err)
	}
	return problems.Err()
}

// tls returns the settings of encrypted connections; nil = they are not.
func (t *target) tls() (*tls.Config, error) {
	if !t.encrypted {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.ca != "" {
		pem, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate is in it", t.ca)
		}
	}
	if t.cert == "" {
		return c, nil
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		const limit = 1 << 20
		key, err := secretfile.Read(t.key, limit)
		if err != nil {
			return nil, err
		}
		cert, err := os.ReadFile(t.cert)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", t.cert, t.key, err)
		}
		return &pair, nil
	}
	_, err := c.GetClientCertificate(nil)
	return c, err
}
