package cas

import (
	"cmp"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
)

// Settings are those that the stores of all drivers have. URL, Layout, Min and Max are required.
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

// defaultNamespace is the name of a pool whose URL names none.
const defaultNamespace = "katsubushi"

// A Target is what a URL says.
type Target = endpoint.Target

// Target reads the URL, and adds the files that flags name. The problems do not repeat what may be a password.
func (s Settings) Target(p Protocol) (Target, problem.List) {
	if p.Namespace == "" {
		p.Namespace = defaultNamespace
	}
	t, problems := p.Target(s.URL)
	readable := problems == nil
	for _, f := range []struct{ field, flag, file, inURL string }{
		{"CAFile", s.CAFile, "ca", t.Files.CA}, {"CertFile", s.CertFile, "cert", t.Files.Cert},
		{"KeyFile", s.KeyFile, "", ""},
	} {
		switch {
		case f.flag == "":
		case f.inURL != "":
			problems.Add(f.field, "there is a %s in the URL too: one of the two is allowed", f.file)
		case readable && !t.TLS:
			problems.Add(f.field, "belongs to connections with TLS, and the URL begins with %s://", p.Scheme)
		}
	}
	t.PasswordFile, t.Files.CA = s.PasswordFile, cmp.Or(s.CAFile, t.Files.CA)
	if s.CertFile != "" {
		t.Files.Cert, t.Files.Key = s.CertFile, s.KeyFile
	}
	p.CheckPassword(t, &problems)
	if (s.CertFile == "") != (s.KeyFile == "") {
		problems.Add("CertFile", "a certificate and its key belong together")
	}
	return t, problems
}

// Check returns everything that is wrong with the settings; see workerid.SettingErrors. It reads
// no file.
func (s Settings) Check(p Protocol) error {
	_, problems := s.Target(p)
	problems.Include("", validateTerms(s.Terms))
	s.checkTimes(p, &problems)
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
	scheme, _, _ := strings.Cut(s.URL, "://")
	t, _ := s.Target(Protocol{Scheme: strings.TrimSuffix(scheme, "s")})
	flags := map[string]string{}
	if s.CAFile != "" {
		flags["CA"] = "CAFile"
	}
	if s.CertFile != "" {
		flags["Cert"], flags["Key"] = "CertFile", "KeyFile"
	}
	return t.ReadSecrets(flags)
}
