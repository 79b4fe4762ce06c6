package cas

import (
	"crypto/tls"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/internal/secretfile"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Settings are those that the stores of all drivers have. URL, Layout, Min, Max and Boot are required.
type Settings struct {
	// URL says where the pool is. SCHEMEs is SCHEME with TLS:
	//
	//	SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?ns=NAME&ca=FILE&cert=FILE&key=FILE
	//
	// All but one host may be left out. NAME is the pool's, PATH what stands before it in the names of
	// keys. The characters of USER, PASSWORD and PATH may be written as %XX.
	URL string
	workerid.Terms
	Options
}

// A Protocol is what URLs of one kind of store have in common.
type Protocol = endpoint.Protocol

// DefaultNamespace is the name of a pool whose URL names none.
const DefaultNamespace = "katsubushi"

// A Target is what a URL says.
type Target = endpoint.Target

// Target reads the URL. The problems do not repeat what may be a password.
func (s Settings) Target(p Protocol) (Target, problem.List) {
	if p.Namespace == "" {
		p.Namespace = DefaultNamespace
	}
	return p.Target(s.URL)
}

// files returns the files of TLS: those of flags, or else of the URL.
func (s Settings) files(t Target) endpoint.Files {
	f := t.Files
	if s.CAFile != "" {
		f.CA = s.CAFile
	}
	if s.CertFile != "" {
		f.Cert, f.Key = s.CertFile, s.KeyFile
	}
	return f
}

// Check returns everything that is wrong with the settings, as an error of package problem. It reads
// no file.
func (s Settings) Check(p Protocol) error {
	t, problems := s.Target(p)
	readable := len(problems) == 0
	p.CheckPassword(t, s.PasswordFile, &problems)
	if s.CAFile != "" && t.Files.CA != "" {
		problems.Add("CAFile", "there is a ca in the URL too: one of the two is allowed")
	}
	if s.CertFile != "" && t.Files.Cert != "" {
		problems.Add("CertFile", "there is a cert in the URL too: one of the two is allowed")
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
		problems.Add("Heartbeat",
			"%v: at most %v with a lease of %v: newcomers rely on it that every holder looks so often whether its record was "+
				"set back",
			h, most.Round(time.Millisecond), lease)
	}
	if back := pool.WatchOf(most, DefaultTimeout) + h + h/10 + DefaultTimeout; h <= most && lease < back+outage {
		problems.Add("Lease", "%v is too short for %s: with a heartbeat of %v a daemon that has lost its store needs up "+
			"to %v to come back, so it takes at least %v",
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
	scheme, _, _ := strings.Cut(s.URL, "://")
	t, _ := Protocol{Scheme: strings.TrimSuffix(scheme, "s")}.Target(s.URL)
	f := s.files(t)
	if _, err := endpoint.Roots(f.CA); err != nil {
		problems.Add(fieldOf("CAFile", s.CAFile), "%w", err)
	}
	if _, err := f.Certificate(); err != nil {
		problems.Add(fieldOf("CertFile", s.CertFile), "%w", err)
	}
	return problems.Err()
}

// fieldOf returns the field that named a file: the URL does unless there is a value.
func fieldOf(field, value string) string {
	if value == "" {
		return "URL"
	}
	return field
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
	return s.files(t).Config()
}
