// Package stores is the only place that knows the kinds of stores, of worker ids and of sequences. The daemon,
// `katsubushi lease`, `run` and `name` open the store that a URL names and need not know its kind.
package stores

import (
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/counter/redis/line"
	"github.com/katsubushi/katsubushi/v3/counter/sql"
	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
	"github.com/katsubushi/katsubushi/v3/internal/problem"
	"github.com/katsubushi/katsubushi/v3/workerid"
	"github.com/katsubushi/katsubushi/v3/workerid/cas"
	"github.com/katsubushi/katsubushi/v3/workerid/etcd"
	"github.com/katsubushi/katsubushi/v3/workerid/pool"
	"github.com/katsubushi/katsubushi/v3/workerid/redis"
	"github.com/katsubushi/katsubushi/v3/workerid/zookeeper"
)

// Settings name a store and hold its settings. URL, Layout, Min and Max are required.
type Settings struct {
	URL  string
	Only string // the kind that the URL must have, for a flag with the name of one kind (-redis); empty = any
	workerid.Terms

	Redis redis.Options // for Redis only; must be zero with any other store
	// CAS is for ZooKeeper and etcd; Redis takes its files too. Addr has a meaning for these two only, Boot is
	// filled in.
	CAS cas.Options
}

// Flag returns the name of the URL's flag.
func (s *Settings) Flag() string {
	if s.Only != "" {
		return "-" + strings.ToLower(s.Only)
	}
	return "-store"
}

// A kind is a kind of store: its URLs, and what it keeps.
type kind struct {
	name    string
	schemes []string           // of its URLs
	logTo   func(*slog.Logger) // sets where its client library logs, for the whole process; nil = it has none

	leases    func(Settings) workerid.Leases // of worker ids; nil = it keeps none
	options   *options                       // of leases, perhaps shared with other kinds; nil = none
	announces bool                           // its leases are a workerid.Directory
	compares  bool                           // and daemons compare the clocks of those announced there by default

	sequences func(Counters) ledger // nil = it keeps none
	strict    bool                  // those with order=strict too
	users     bool                  // and users, as users.Keys
	// it may lose writes, and says why it cannot keep a sequence; nil = it loses none
	lossy func(counter.Definition) error
}

// database is the name of the kind of stores that speak SQL.
const database = "SQL"

// kindsOfStores is the table of stores. A new one is a folder in workerid or counter, and a line here. The first is
// files.
var kindsOfStores = []kind{
	{name: "files", schemes: []string{"file"}, sequences: inFiles, strict: true},
	{name: "Redis", schemes: redis.Schemes(), logTo: redis.LogTo, leases: ofRedis, options: redisOptions,
		announces: true, sequences: inRedis, lossy: line.Check},
	{name: "ZooKeeper", schemes: zookeeper.Schemes(), logTo: zookeeper.LogTo, leases: ofZooKeeper,
		options: casOptions, announces: true, compares: true},
	{name: "etcd", schemes: etcd.Schemes(), leases: ofEtcd, options: casOptions, announces: true, compares: true,
		sequences: inEtcd, strict: true, users: true},
	{name: database, schemes: sql.Schemes(), sequences: inSQL},
}

// Options are settings that only some kinds have.
type options struct {
	owners string // the kinds, for errors
	of     func(*Settings) any
}

var (
	redisOptions = &options{"Redis", func(s *Settings) any { return s.Redis }}
	casOptions   = &options{"ZooKeeper and etcd", func(s *Settings) any {
		o := s.CAS
		o.Addr, o.Boot = "", nil // no flags of the store's
		return o
	}}
)

func ofRedis(s Settings) workerid.Leases {
	s.adaptToRedis()
	u, err := endpoint.Split(s.URL)
	// what -redis has always meant; with other flags, another store may run here
	if s.Only != "" && err == nil && slices.Contains(redis.Schemes()[:2], u.Scheme) && u.DefaultHost("localhost") {
		s.URL = u.String()
	}
	return redis.Config{URL: s.URL, Terms: s.Terms, Options: s.Redis}
}

func ofZooKeeper(s Settings) workerid.Leases {
	return zookeeper.Config{Settings: cas.Settings{URL: s.URL, Terms: s.Terms, Options: s.CAS}}
}

func ofEtcd(s Settings) workerid.Leases {
	return etcd.Config{Settings: cas.Settings{URL: s.URL, Terms: s.Terms, Options: s.CAS}}
}

// adaptToRedis moves what -store-password-file, -store-ca, -store-cert and -store-key say to where Redis looks for it.
func (s *Settings) adaptToRedis() {
	if s.Redis.PasswordFile == "" {
		s.Redis.PasswordFile, s.CAS.PasswordFile = s.CAS.PasswordFile, ""
	}
	u, err := endpoint.Split(s.URL)
	if err != nil {
		return // the files stay, and are refused too
	}
	for i, file := range []*string{&s.CAS.CAFile, &s.CAS.CertFile, &s.CAS.KeyFile} {
		if *file != "" {
			u.Query = strings.TrimPrefix(u.Query+"&"+endpoint.FileOptions[i]+"="+url.QueryEscape(*file), "&")
			s.URL, *file = u.String(), ""
		}
	}
}

// find returns the kind of a URL, of those that keep what is asked for. The error lists the schemes; it does not
// repeat the URL, which may contain a password.
func find(text string, keeps func(*kind) bool) (*kind, error) {
	scheme, _, ok := strings.Cut(text, "://")
	var names []string
	for i := range kindsOfStores {
		k := &kindsOfStores[i]
		if !keeps(k) {
			continue
		}
		if ok && slices.Contains(k.schemes, scheme) {
			return k, nil
		}
		names = append(names, k.schemes...)
	}
	return nil, fmt.Errorf("a URL begins with %s, and ://", strings.Join(names, ", "))
}

func (s *Settings) find() (*kind, error) {
	if i := slices.IndexFunc(kindsOfStores, func(k kind) bool { return k.name == s.Only }); i >= 0 {
		return &kindsOfStores[i], nil // its package reports what is wrong with the URL
	}
	return find(s.URL, func(k *kind) bool { return k.leases != nil })
}

// Announces reports whether the store is a workerid.Directory.
func (s Settings) Announces() bool {
	k, err := s.find()
	return err == nil && k.announces
}

// Compares reports whether daemons compare the clocks of those that are announced in the store by default.
func (s Settings) Compares() bool {
	k, err := s.find()
	return err == nil && k.compares
}

// Hosts returns the host:port of a URL of a store that Announces. A host without a port gets any: it
// is for finding out from which address this host reaches the other.
func (s Settings) Hosts() (list []string) {
	u, _ := endpoint.Split(s.URL)
	list, _ = u.Addresses(9)
	return list
}

// Validate returns everything that is wrong with the settings, alone and together, as an error of
// package problem. It reads no file.
func (s Settings) Validate() error {
	var problems problem.List
	mine, err := s.find()
	if err != nil {
		problems.Add("URL", "%w", err)
		problems.Include("", s.Terms.Validate())
	} else {
		problems.Include("", mine.leases(s).Validate())
	}
	if mine == nil {
		return problems.Err()
	}
	if mine.options == redisOptions {
		s.adaptToRedis()
	}
	for _, other := range []*options{redisOptions, casOptions} {
		for _, field := range given(other.of(&s)) {
			if other != mine.options {
				problems.Add(field, "belongs to %s, and the store is of another kind: %s", other.owners, mine.name)
			}
		}
	}
	return problems.Err()
}

// Kind returns the name of the URL's kind of store, or "" if there is none.
func (s Settings) Kind() string {
	if k, _ := s.find(); k != nil {
		return k.name
	}
	return ""
}

// Pool returns the name of the pool that the URL names: "redis:/0/yaraus". It is the same for all daemons of
// the pool, by whichever address they reach the store, and another one for other pools in the store. It
// is "" if there is none.
func (s Settings) Pool() string {
	if k, _ := s.find(); k != nil {
		return strings.ToLower(k.name) + ":" + k.leases(s).Pool()
	}
	return ""
}

// PublicURL returns the URL without what could be a secret: the user, the password, and all options but the
// pool's name.
func (s Settings) PublicURL() string {
	u, err := endpoint.Split(s.URL)
	if err != nil || strings.Contains(u.Path, "@") { // it may be a password that goes on
		return ""
	}
	_, rest, _ := strings.Cut(s.URL, "://")
	rest, query, _ := strings.Cut(rest, "?")
	public := u.Scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
	for option := range strings.SplitSeq(query, "&") {
		if strings.HasPrefix(option, "ns=") {
			public += "?" + option
		}
	}
	return public
}

// given returns the names of the fields that are not zero.
func given(options any) (names []string) {
	v := reflect.ValueOf(options)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			names = append(names, v.Type().Field(i).Name)
		}
	}
	return names
}

// ReadSecrets reads the files that hold secrets. Its error has the same form as Validate's.
func (s Settings) ReadSecrets() error {
	k, err := s.find()
	if err != nil {
		return nil // Validate reports it
	}
	return k.leases(s).ReadSecrets()
}

// Interval returns the mean time between two extensions of a lease: Heartbeat, or else the store's
// choice.
func (s Settings) Interval() time.Duration {
	if s.Heartbeat != 0 {
		return s.Heartbeat
	}
	if k, err := s.find(); err == nil {
		return k.leases(s).BestHeartbeat()
	}
	return workerid.HeartbeatOf(s.Lease)
}

// Watch is how long a newcomer watches the pool before it gets a worker id.
func (s Settings) Watch() time.Duration {
	if k, err := s.find(); err == nil && k.options == casOptions {
		return pool.WatchOf(cas.BestHeartbeat(s.WithDefaults().Lease), cas.DefaultTimeout)
	}
	return 0
}

// Open makes the store that the daemon and `run` lease from. It does not connect yet, so the store need
// not be running.
func Open(s Settings) (workerid.Backend, error) {
	k, err := s.find()
	if err != nil {
		return nil, err
	}
	return k.leases(s).Open()
}

// OpenAdmin makes the operator's interface to the store. It does not connect yet either.
func OpenAdmin(s Settings) (workerid.Admin, error) {
	k, err := s.find()
	if err != nil {
		return nil, err
	}
	return k.leases(s).OpenAdmin()
}

// LogTo sends the logs of client libraries to l, for the whole process.
func LogTo(l *slog.Logger) {
	for _, k := range kindsOfStores {
		if k.logTo != nil {
			k.logTo(l)
		}
	}
}
