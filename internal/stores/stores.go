// Package stores is the one place that knows which kinds of leasing stores there are: the daemon, `katsubushi lease` and `katsubushi run`
// open what a URL names, and do not ask what it is.
package stores

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
)

// Settings say which store is meant, and what it is told. URL, Layout, Min and Max are needed.
type Settings struct {
	URL  string
	Only string // the kind that the URL must be of, for a setting that is called by its name; empty = any
	workerid.Terms

	Redis redis.Options // what only Redis has; the zero value with any other store
}

// Flag is what the user calls the URL's setting.
func (s *Settings) Flag() string {
	if s.Only != "" {
		return "-" + strings.ToLower(s.Only)
	}
	return "-store"
}

// A kind is a kind of store.
type kind struct {
	name    string
	schemes []string              // of its URLs
	config  func(Settings) config // what its package is told
	options func(*Settings) any   // those of the Settings that only it has; nil = none
	logTo   func(*slog.Logger)    // where a library of its own is to log, for the whole process; nil = it has none
}

// kinds is the table. A new store is a folder in workerid and a line here.
var kinds = []kind{
	{"Redis", redis.Schemes(), ofRedis, func(s *Settings) any { return s.Redis }, redis.LogTo},
}

// A config is the settings of one kind of store. Its errors are of package problem, with the fields of Settings.
type config interface {
	Validate() error    // all that is wrong; reads no file
	ReadSecrets() error // reads the files that hold secrets
	BestHeartbeat() time.Duration
	Open() (workerid.Backend, error)
	OpenAdmin() (workerid.Admin, error)
}

func ofRedis(s Settings) config { return redis.Config{URL: s.URL, Terms: s.Terms, Options: s.Redis} }

// find is the kind that the URL is of. The error says which there are; it does not repeat the URL, which may hold a password.
func (s *Settings) find() (*kind, error) {
	scheme, rest, ok := strings.Cut(s.URL, "://")
	var names []string
	for i := range kinds {
		k := &kinds[i]
		if s.Only == k.name { // it says itself what is wrong with the URL
			return k, nil
		}
		if ok && slices.Contains(k.schemes, scheme) {
			return k, checkHosts(scheme, rest)
		}
		names = append(names, k.schemes...)
	}
	return nil, fmt.Errorf("a URL begins with %s, and ://", strings.Join(names, ", "))
}

// checkHosts refuses a URL that leaves a host out: some client libraries take that for this host, on which there may well be another store.
func checkHosts(scheme, rest string) error {
	if scheme == "unix" { // a path instead
		return nil
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	hosts := rest[:end]
	for host := range strings.SplitSeq(hosts[strings.LastIndexByte(hosts, '@')+1:], ",") {
		if host == "" || strings.HasPrefix(host, ":") {
			return fmt.Errorf("the URL names no host: %s://HOST", scheme)
		}
	}
	return nil
}

// Validate finds everything that is wrong with the settings, alone and together. The error is of package problem. No file is read.
func (s Settings) Validate() error {
	var problems problem.List
	mine, err := s.find()
	if err != nil {
		problems.Add("URL", "%w", err)
		problems.Include("", s.Terms.Validate())
	} else {
		problems.Include("", mine.config(s).Validate())
	}
	for i := range kinds {
		if other := &kinds[i]; mine != nil && other != mine && other.options != nil {
			for _, field := range given(other.options(&s)) {
				problems.Add(field, "belongs to %s, and the store is of another kind: %s", other.name, mine.name)
			}
		}
	}
	return problems.Err()
}

// given are the names of the fields that are not zero.
func given(options any) (names []string) {
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

// ReadSecrets reads the files that hold secrets. The error is one of Validate's.
func (s Settings) ReadSecrets() error {
	k, err := s.find()
	if err != nil {
		return nil // Validate says so
	}
	return k.config(s).ReadSecrets()
}

// Interval is the mean time between two extensions of a lease: Heartbeat, or what suits the store.
func (s Settings) Interval() time.Duration {
	if s.Heartbeat != 0 {
		return s.Heartbeat
	}
	if k, err := s.find(); err == nil {
		return k.config(s).BestHeartbeat()
	}
	return workerid.HeartbeatOf(s.Lease)
}

// Open makes the store that the daemon and `run` lease from. It does not connect: the store need not be there yet.
func Open(s Settings) (workerid.Backend, error) {
	k, err := s.find()
	if err != nil {
		return nil, err
	}
	return k.config(s).Open()
}

// OpenAdmin makes an operator's side of it. It does not connect either.
func OpenAdmin(s Settings) (workerid.Admin, error) {
	k, err := s.find()
	if err != nil {
		return nil, err
	}
	return k.config(s).OpenAdmin()
}

// LogTo sends what client libraries log by themselves to l, for the whole process.
func LogTo(l *slog.Logger) {
	for _, k := range kinds {
		if k.logTo != nil {
			k.logTo(l)
		}
	}
}
