// Package setup makes the files that configure a fleet: it asks questions, turns the answers into the texts of a unit's
// drop-in, a compose file or values of the Helm chart, and writes all files or none. No password gets into a file:
// the files name others that hold them. It knows no flags: what a -config file looks like is its caller's.
package setup

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

// The ways to run daemons. Plain is a -config file and nothing else.
const (
	Systemd = "systemd"
	Compose = "compose"
	Helm    = "helm"
	Plain   = "plain"
)

var forms = []string{Systemd, Compose, Helm, Plain}

// Where the files that answers lead to are in the end, on a host or in a container.
const (
	ConfigDir     = "/etc/katsubushi"
	passwordOf    = ConfigDir + "/store-password"
	counterSecret = ConfigDir + "/counters-password"
)

// None is the answer that there is no such thing.
const None = "none"

// A Daemon is one of the fleet.
type Daemon struct {
	Name     string // of its host or its container
	WorkerID int    // if it is not leased
}

// A Place is a store.
type Place struct {
	URL          string // without a password; empty = none
	PasswordFile string // an absolute path; empty = no password
}

// A Plan is what the answers say. Its methods read an answer each; after an error the plan is as before.
type Plan struct {
	Form      string
	Daemons   []Daemon
	Store     Place // where worker ids are leased
	Counters  Place // where sequences are recorded
	Port      int
	HTTPPort  int // Unsaid = the daemon's own default, which is for its host only
	Cert, Key string
	Sequences []string

	numbered bool // an answer says which worker id a host has
}

// Given says which worker id each daemon has, a line each, or that they lease them. A chart numbers its pods itself.
func (p *Plan) Given() (lines []string) {
	switch {
	case p.Form == Helm:
	case p.Store.URL != "":
		var names []string
		for _, d := range p.Daemons {
			names = append(names, d.Name)
		}
		lines = []string{strings.Join(names, ", ") + ": worker ids from the store"}
	default:
		for _, d := range p.Daemons {
			lines = append(lines, fmt.Sprintf("%s: worker id %d", d.Name, d.WorkerID))
		}
	}
	return lines
}

// Unsaid is a port that no answer names.
const Unsaid = -1

// maxDaemons is how many worker ids above 0 the default layout has.
const maxDaemons = 1023

var (
	hostName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,252}$`)
	})
	filePath = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(/[A-Za-z0-9._+@-]+)+$`)
	})
)

// SetHosts reads [FORM:]NAME[=WORKER-ID],..., or how many daemons there are: compose:3 and helm:3.
func (p *Plan) SetHosts(answer string) error {
	form, list, ok := strings.Cut(strings.TrimSpace(answer), ":")
	if !ok {
		form, list = Systemd, form
		if slices.Contains(forms, strings.ToLower(list)) {
			form, list = strings.ToLower(list), "" // a host of that name is systemd:NAME
		}
	}
	if !slices.Contains(forms, form) {
		return fmt.Errorf("%s: before a colon stands one of systemd, compose, helm and plain; "+
			"a host is a name or an IPv4 address, without a port", brief(answer))
	}
	all, err := hosts(form, strings.TrimSpace(list))
	if err == nil {
		p.Form, p.Daemons, p.numbered = form, all, strings.Contains(list, "=")
	}
	return err
}

func hosts(form, list string) (all []Daemon, err error) {
	if form == Compose || form == Helm {
		n, err := strconv.Atoi(list)
		if err != nil || n < 1 || n > maxDaemons {
			return nil, fmt.Errorf("%s: the number of daemons follows, 1 to %d: %s:3", form, maxDaemons, form)
		}
		for i := range n {
			all = append(all, Daemon{fmt.Sprintf("ids%d", i+1), i + 1})
		}
		return all, nil
	}
	for i, host := range strings.Split(list, ",") {
		host = strings.TrimSpace(host)
		if strings.ContainsFunc(host, unicode.IsSpace) {
			return nil, fmt.Errorf("%q: hosts are separated by commas", brief(host))
		}
		name, number, given := strings.Cut(host, "=")
		d, err := Daemon{name, i + 1}, error(nil)
		if given {
			d.WorkerID, err = strconv.Atoi(number)
		}
		if err != nil || !hostName().MatchString(name) || len(all) == maxDaemons {
			return nil, fmt.Errorf("%q: names or IPv4 addresses of up to %d hosts are wanted, with commas between; "+
				"h2=2 gives a worker id", brief(host), maxDaemons)
		}
		for _, o := range all {
			if o.Name == d.Name {
				return nil, fmt.Errorf("%s: another host has that name", brief(name))
			}
			if o.WorkerID == d.WorkerID {
				return nil, fmt.Errorf("%s: %s has worker id %d already", brief(name), brief(o.Name), d.WorkerID)
			}
		}
		all = append(all, d)
	}
	return all, nil
}

// brief cuts what somebody typed for a message.
func brief(answer string) string {
	const most = 40 // characters
	if r := []rune(answer); len(r) > most {
		return string(r[:most]) + "..."
	}
	return answer
}

// Brief is an answer as messages may repeat it: short, and without the password of a URL.
func Brief(answer string) string {
	words := strings.Fields(answer)
	for i := range words {
		words[i] = brief(endpoint.Safe(words[i]))
	}
	return brief(strings.Join(words, " "))
}

// SetStore reads URL [PASSWORD-FILE], or none.
func (p *Plan) SetStore(answer string) error {
	words := strings.Fields(answer)
	if len(words) == 1 && words[0] == None {
		p.Store = Place{}
		return nil
	}
	store, err := p.place(words, passwordOf)
	if err == nil && p.numbered {
		err = errors.New("hosts have worker ids of their own, such as h2=2: leave those out, or answer none")
	}
	if err == nil {
		p.Store = store
	}
	return err
}

// place reads URL [PASSWORD-FILE]. A URL with a user has a password in the file that is named, or in byDefault.
func (p *Plan) place(words []string, byDefault string) (at Place, err error) {
	if len(words) == 0 || len(words) > 2 {
		return at, errors.New("a URL is wanted, and perhaps the file of its password behind it")
	}
	at.URL = words[0]
	u, err := endpoint.Split(at.URL)
	switch {
	case err != nil:
		return at, err
	case u.Password != "" || strings.Contains(u.Query, "password="):
		return at, errors.New("a password does not go into the settings: write USER@HOST, and behind the URL a file with it")
	case p.apart() && slices.ContainsFunc(u.Hosts, local):
		return at, p.lonely()
	case len(words) == 2:
		at.PasswordFile = words[1]
	case u.Login:
		at.PasswordFile = byDefault
	}
	if at.PasswordFile != "" {
		err = checkPath(at.PasswordFile)
	}
	return at, err
}

// apart reports whether a daemon has another loopback than the next one, or than its host.
func (p *Plan) apart() bool { return len(p.Daemons) > 1 || p.Form == Compose || p.Form == Helm }

// lonely is the reason to refuse a store that only its own host reaches.
func (p *Plan) lonely() error {
	const why = "the URL leads each %s to a store of its own, so two daemons could issue the same: name the store's host"
	if p.Form == Compose || p.Form == Helm {
		return fmt.Errorf(why, "container")
	}
	return fmt.Errorf(why, "host")
}

// local reports whether a host in a URL is the one that connects. No host is that of a socket, or localhost.
func local(host string) bool {
	if plain, err := url.PathUnescape(host); err == nil {
		host = plain
	}
	if end := strings.LastIndexByte(host, ']'); end > 0 {
		host = host[1:end]
	} else if strings.Count(host, ":") == 1 {
		host, _, _ = strings.Cut(host, ":")
	}
	if at, err := netip.ParseAddr(host); err == nil {
		return at.IsLoopback() || at.IsUnspecified()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "" || host == "localhost" || strings.HasPrefix(host, "localhost.") ||
		strings.HasSuffix(host, ".localhost") || strings.HasPrefix(host, "ip6-l")
}

func checkPath(file string) error {
	if !filePath().MatchString(file) || path.Clean(file) != file {
		return fmt.Errorf("%s: an absolute path is wanted, of letters, digits and - _ . + @", brief(file))
	}
	return nil
}

// SetPorts reads PORT [HTTP-PORT]. With HTTP-PORT that port is open to other hosts, too; 0 closes it.
func (p *Plan) SetPorts(answer string) error {
	words := strings.Fields(answer)
	ports := []int{0, Unsaid}
	wrong := len(words) == 0 || len(words) > 2
	for i := 0; i < len(words) && !wrong; i++ {
		n, err := strconv.Atoi(words[i])
		ports[i], wrong = n, err != nil || n < 1-i || n > 65535
	}
	inside := p.Form == Compose || p.Form == Helm
	switch {
	case wrong:
		return errors.New("one or two numbers from 1 to 65535 are wanted; the second may be 0")
	case p.Form == Systemd && (ports[0] < 1024 || ports[1] > 0 && ports[1] < 1024):
		return errors.New("the unit may not open ports below 1024")
	case inside && ports[1] < 1:
		return errors.New("health checks in containers need the second port")
	case p.Form == Compose && ports[0]+len(p.Daemons)-1 > 65535:
		return fmt.Errorf("%d and the following ports of this host are for the daemons: a smaller number is wanted", ports[0])
	}
	p.Port, p.HTTPPort = ports[0], ports[1]
	return nil
}

// SetTLS reads CERTIFICATE-FILE KEY-FILE, or none.
func (p *Plan) SetTLS(answer string) error {
	words := strings.Fields(answer)
	if len(words) == 1 && words[0] == None {
		p.Cert, p.Key = "", ""
		return nil
	}
	if len(words) != 2 {
		return errors.New("the files of a certificate and of its key are wanted")
	}
	err := errors.Join(checkPath(words[0]), checkPath(words[1]))
	if err == nil {
		p.Cert, p.Key = words[0], words[1]
	}
	return err
}

// SetSequences reads NAME,... [URL [PASSWORD-FILE]], or none. Without a URL the sequences of one daemon are in its
// state directory, and those of several in the store of their worker ids.
func (p *Plan) SetSequences(answer string) error {
	words := strings.Fields(answer)
	if len(words) == 0 {
		return errors.New("names are wanted, with commas between")
	}
	if len(words) == 1 && words[0] == None {
		p.Sequences, p.Counters = nil, Place{}
		return nil
	}
	names, at := strings.Split(words[0], ","), Place{}
	if slices.Contains(names, "") {
		return errors.New("names are wanted, with commas between and no space")
	}
	var err error
	switch stateless := p.Form == Helm && p.Store.URL != ""; {
	case len(words) > 1:
		at, err = p.place(words[1:], counterSecret)
	case len(p.Daemons) > 1 && p.Store.URL == "":
		err = errors.New("several daemons need one place for their sequences, behind the names: orders etcd://HOST:2379")
	case len(p.Daemons) > 1 || stateless:
		at = p.Store
	}
	if err == nil {
		p.Sequences, p.Counters = names, at
	}
	return err
}

// Shared reports whether all daemons have the same settings.
func (p *Plan) Shared() bool { return p.Store.URL != "" || len(p.Daemons) == 1 }

// keepsFiles reports whether daemons record something in their state directory.
func (p *Plan) keepsFiles() bool {
	return p.Store.URL == "" || len(p.Sequences) > 0 && p.Counters.URL == ""
}

// Settings returns what a daemon is to be set to, by the names of its flags, without the dash.
func (p *Plan) Settings(d Daemon) (list [][2]string) {
	set := func(name, value string) {
		if value != "" {
			list = append(list, [2]string{name, value})
		}
	}
	if p.Store.URL == "" {
		set("worker-id", strconv.Itoa(d.WorkerID))
	} else if p.Form == Compose && !p.keepsFiles() {
		set("state-dir", None)
	}
	set("store", p.Store.URL)
	set("store-password-file", p.Store.PasswordFile)
	if p.Port != 0 {
		set("port", strconv.Itoa(p.Port))
		if p.HTTPPort != Unsaid {
			set("http-port", strconv.Itoa(p.HTTPPort))
		}
	}
	for _, name := range p.Sequences {
		set("name", name+" sequence")
	}
	set("counters", p.Counters.URL)
	set("counters-password-file", p.Counters.PasswordFile)
	set("tls-cert", p.Cert)
	set("tls-key", p.Key)
	return list
}

// secrets returns the files that must be there before a daemon starts, by the flags that name them.
func (p *Plan) secrets() (list [][2]string) {
	for _, s := range p.Settings(p.Daemons[0]) {
		if strings.HasSuffix(s[0], "-password-file") || strings.HasPrefix(s[0], "tls-") {
			list = append(list, s)
		}
	}
	return list
}

// Secrets returns the files with passwords, certificate and key that the settings name.
func (p *Plan) Secrets() (files []string) {
	for _, s := range p.secrets() {
		if !slices.Contains(files, s[1]) {
			files = append(files, s[1])
		}
	}
	return files
}
