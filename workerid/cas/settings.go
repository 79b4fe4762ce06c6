package cas

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Settings are those that the stores of all drivers have. URL, Layout, Min, Max and Boot are required.
type Settings struct {
	// URL says where the pool is. SCHEMEs is SCHEME with TLS:
	//
	//	SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?ns=NAME
	//
	// All but one host may be left out. NAME is the pool's, PATH what stands before it in the names of
	// keys. The characters of USER, PASSWORD and PATH may be written as %XX.
	URL string
	workerid.Terms
	Options
}

// A Protocol is what URLs of one kind of store have in common.
type Protocol struct {
	Scheme string // without TLS; with it, an s follows
	Port   int    // where none is given
	Beside string // the first part of PATH must not be this; empty = anything
}

// Schemes returns those of the URLs.
func (p Protocol) Schemes() []string { return []string{p.Scheme, p.Scheme + "s"} }

// DefaultNamespace is the name of a pool whose URL names none.
const DefaultNamespace = "katsubushi"

// A Target is what a URL says.
type Target struct {
	Hosts          []string // HOST:PORT
	User, Password string   // empty = none
	Path           []string // its parts
	Namespace      string
	TLS            bool
}

// Where is for errors and logs: it has no secrets.
func (t Target) Where() string { return strings.Join(t.Hosts, ",") }

// Key returns the key of a pool's record, such as /PATH/NAME/meta.
func (t Target) Key(parts ...string) string {
	var b strings.Builder
	for _, all := range [][]string{t.Path, {t.Namespace}, parts} {
		for _, part := range all {
			b.WriteString("/" + part)
		}
	}
	return b.String()
}

// Target reads the URL. The problems do not repeat what may be a password.
func (s Settings) Target(p Protocol) (t Target, problems problem.List) {
	wrong := func(format string, args ...any) { problems.Add("URL", format, args...) }
	scheme, rest, ok := strings.Cut(s.URL, "://")
	if t.TLS = scheme == p.Scheme+"s"; !ok || !t.TLS && scheme != p.Scheme {
		wrong("a URL begins with %s:// or %ss://", p.Scheme, p.Scheme)
		return t, problems
	}
	if i := strings.IndexAny(rest, "/?"); i >= 0 && strings.Contains(rest[i:], "@") { // it may be a password that goes on
		wrong("an @ stands behind a / or a ?: write those of a password as %%2F and %%3F, others as %%40")
		return t, problems
	}
	rest, query, _ := strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, password, _ := strings.Cut(hosts[:i], ":")
		hosts = hosts[i+1:]
		var err, bad error
		t.User, err = url.PathUnescape(user)
		t.Password, bad = url.PathUnescape(password)
		if err != nil || bad != nil || t.User == "" || strings.ContainsAny(t.User, ":\x00") {
			wrong("what stands before @ is no USER:PASSWORD; write other characters than letters and digits as %%XX")
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host, err := withPort(host, p.Port); err != nil {
			wrong("%w", err)
		} else {
			t.Hosts = append(t.Hosts, host)
		}
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(path, "/"), "/") {
		if path == "" || path == "/" {
			break
		}
		name, err := url.PathUnescape(part)
		if bad := badName(name); err != nil || bad != "" {
			wrong("the path /%s: %q %s", path, part, bad)
		}
		t.Path = append(t.Path, name)
	}
	if p.Beside != "" && len(t.Path) > 0 && t.Path[0] == p.Beside {
		wrong("the path /%s: /%s is the store's own", path, p.Beside)
	}
	t.Namespace = DefaultNamespace
	values, err := url.ParseQuery(query)
	if err != nil {
		wrong("what follows ? cannot be read")
	}
	for name, v := range values {
		if name != "ns" || len(v) > 1 {
			wrong("?%s: only ns is allowed, once", name)
		} else if t.Namespace = v[0]; badName(v[0]) != "" {
			wrong("ns=%s: %q %s", v[0], v[0], badName(v[0]))
		}
	}
	if len(t.Path) == 0 && p.Beside != "" && t.Namespace == p.Beside {
		wrong("ns=%s: /%s is the store's own", t.Namespace, p.Beside)
	}
	return t, problems
}

const maxName = 64 // bytes of a part of a path, and of a namespace

// badName says what is wrong with a part of a path.
func badName(name string) string {
	switch {
	case name == "":
		return "is empty"
	case name == "." || name == "..":
		return "is relative: a path has no . and no .."
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d bytes", maxName)
	case !utf8.ValidString(name) || strings.Contains(name, "/") ||
		strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r >= 0xfff0 }):
		return "has a character that names must not have: a slash, a space, a control character"
	}
	return ""
}

// withPort returns HOST:PORT.
func withPort(host string, port int) (string, error) {
	colon := strings.LastIndexByte(host, ':')
	if colon <= strings.LastIndexByte(host, ']') {
		host, colon = host+":"+strconv.Itoa(port), len(host)
	}
	name := host[:colon]
	brackets := strings.Contains(name, ":") == (strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]")) // around addresses of IPv6, and only those
	if name == "" || !brackets || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '@' }) {
		return "", errors.New("the URL names no host where one is wanted: HOST:PORT,HOST:PORT")
	}
	if n, err := strconv.ParseUint(host[colon+1:], 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%s: a port is a number from 1 to 65535", name)
	}
	return host, nil
}

// Check returns everything that is wrong with the settings, as an error of package problem. It reads
// no file.
func (s Settings) Check(p Protocol) error {
	t, problems := s.Target(p)
	readable := len(problems) == 0
	switch {
	case s.PasswordFile != "" && t.Password != "":
		problems.Add("PasswordFile", "there is a password in the URL too: one of the two is allowed")
	case s.PasswordFile != "" && t.User == "" && readable:
		problems.Add("PasswordFile", "a password of nobody: the URL names no user, as %s://USER@HOST does", p.Scheme)
	case s.PasswordFile == "" && t.User != "" && t.Password == "":
		problems.Add("URL", "user %s has no password: write USER:PASSWORD@, or name a file that has it", t.User)
	}
	if readable && !t.TLS {
		for field, file := range map[string]string{"CAFile": s.CAFile, "CertFile": s.CertFile, "KeyFile": s.KeyFile} {
			if file != "" {
				problems.Add(field, "belongs to connections with TLS, and the URL begins with %s://", p.Scheme)
			}
		}
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		problems.Add("CertFile", "a certificate and its key belong together")
	}
	problems.Include("", s.Terms.Validate())
	s.checkTimes(p, &problems)
	if s.Min <= s.Max && s.Max-s.Min >= MaxWorkers {
		problems.Add("Max", "a pool has at most %d worker ids, not those from %d to %d", MaxWorkers, s.Min, s.Max)
	}
	return problems.Err()
}

// BestHeartbeat is a suitable mean time between two extensions of a lease, and the longest one that is
// allowed. All daemons of a pool have the same lease; so newcomers know how long they must watch until
// every holder has looked at its record.
func BestHeartbeat(lease time.Duration) time.Duration {
	return min(2*time.Second, workerid.HeartbeatOf(lease))
}

// outage is how long a daemon must be able to do without its store.
const outage = time.Second

// checkTimes refuses a heartbeat that is too long for newcomers, and a lease that ends before a daemon has
// come back from a moment without its store. It last wrote up to 1.1 heartbeats before that; afterwards
// it watches the pool, and each call takes up to its time-out.
func (s Settings) checkTimes(p Protocol, problems *problem.List) {
	lease := s.WithDefaults().Lease
	most := BestHeartbeat(lease)
	h := s.Heartbeat
	if h == 0 {
		h = most
	}
	if h > most && h <= lease/2 { // Terms report the others
		problems.Add("Heartbeat", "%v: at most %v with a lease of %v: newcomers rely on it that every holder looks so often whether its record was set back",
			h, most.Round(time.Millisecond), lease)
	}
	if back := pool.WatchOf(most, DefaultTimeout) + h + h/10 + DefaultTimeout; h <= most && lease < back+outage {
		problems.Add("Lease", "%v is too short for %s: with a heartbeat of %v a daemon that has lost its store needs up to %v to come back, so it takes at least %v",
			lease, p.Scheme, h, back, back+outage)
	}
}

// ReadSecrets reads the files as every connection will, and returns what is wrong with them, in the
// same form as Check.
func (s Settings) ReadSecrets() error {
	var problems problem.List
	if s.PasswordFile != "" {
		if _, err := secretfile.Password(s.PasswordFile); err != nil {
			problems.Add("PasswordFile", "%w", err)
		}
	}
	if _, err := s.roots(); err != nil {
		problems.Add("CAFile", "%w", err)
	}
	if s.CertFile != "" && s.KeyFile != "" {
		if _, err := s.certificate(); err != nil {
			problems.Add("CertFile", "%w", err)
		}
	}
	return problems.Err()
}

// Secret returns the password for a new connection.
func (s Settings) Secret(t Target) (string, error) {
	if s.PasswordFile == "" {
		return t.Password, nil
	}
	return secretfile.Password(s.PasswordFile)
}

// Encryption returns the settings of a new connection; nil = it is not encrypted. It reads the files.
func (s Settings) Encryption(t Target) (*tls.Config, error) {
	if !t.TLS {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if c.RootCAs, err = s.roots(); err != nil {
		return nil, err
	}
	if s.CertFile != "" {
		cert, err := s.certificate()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{cert}
	}
	return c, nil
}

// roots returns the authorities of the store's certificates; nil = the system's.
func (s Settings) roots() (*x509.CertPool, error) {
	if s.CAFile == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s: no certificate is in it", s.CAFile)
	}
	return roots, nil
}

const maxKey = 1 << 20 // bytes of a private key's file

// certificate returns this daemon's.
func (s Settings) certificate() (tls.Certificate, error) {
	key, err := secretfile.Read(s.KeyFile, maxKey)
	if err != nil {
		return tls.Certificate{}, err
	}
	cert, err := os.ReadFile(s.CertFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("%s and %s: %w", s.CertFile, s.KeyFile, err)
	}
	return pair, nil
}
