// Package endpoint says where a store is: it has the grammar of the URLs of all kinds of stores, and reads
// the files of TLS.
//
//	SCHEME://USER:PASSWORD@HOST:PORT,HOST:PORT/PATH?NAME=VALUE&NAME=VALUE
//
// The first / or ? ends the hosts, and the last @ before that ends USER:PASSWORD, whose characters may be
// written as %XX. No error of this package has a password in it.
package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The ports of servers, where a URL names none.
const (
	RedisPort     = 6379
	SentinelPort  = 26379
	EtcdPort      = 2379
	ZooKeeperPort = 2181
)

// A URL is the parts of one.
type URL struct {
	Scheme         string
	Login          bool   // something stands before an @
	User, Password string // without %XX; empty = none
	Hosts          []string
	Path           string // behind the slash; it and the rest as they were written
	Query          string // behind the question mark
}

// Split takes a URL apart. It knows no schemes.
func Split(text string) (u URL, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return u, errors.New("not a URL: SCHEME://HOST expected")
	}
	u.Scheme = scheme
	rest, u.Query, _ = strings.Cut(rest, "?")
	hosts, path, _ := strings.Cut(rest, "/")
	u.Path = path
	if i := strings.LastIndexByte(hosts, '@'); i >= 0 {
		user, password, _ := strings.Cut(hosts[:i], ":")
		hosts, u.Login = hosts[i+1:], true
		var bad error
		u.User, err = url.PathUnescape(user)
		if u.Password, bad = url.PathUnescape(password); err != nil || bad != nil {
			u.User, u.Password, err = "", "", errNoLogin
		}
	}
	u.Hosts = strings.Split(hosts, ",")
	return u, err
}

var (
	errNoLogin = errors.New(
		"the part before @ is not USER:PASSWORD; write characters other than letters and digits as %XX")
	errStray = errors.New(
		"an @ follows a / or a ?: in a password write these as %2F and %3F, elsewhere write @ as %40")
)

// Stray returns an error if an @ stands in the path, or in the query outside of the values of options: what is
// before it may be the rest of a password.
func (u URL) Stray(options ...string) error {
	stray := strings.Contains(u.Path, "@")
	for option := range strings.SplitSeq(u.Query, "&") {
		name, _, _ := strings.Cut(option, "=")
		stray = stray || strings.Contains(option, "@") && !slices.Contains(options, name)
	}
	if stray {
		return errStray
	}
	return nil
}

// String writes the URL. Split reads it to the same parts.
func (u URL) String() string {
	var b strings.Builder
	b.WriteString(u.Scheme + "://")
	if u.Login {
		b.WriteString(escape(u.User))
		if u.Password != "" {
			b.WriteString(":" + escape(u.Password))
		}
		b.WriteString("@")
	}
	b.WriteString(strings.Join(u.Hosts, ","))
	if u.Path != "" {
		b.WriteString("/" + u.Path)
	}
	if u.Query != "" {
		b.WriteString("?" + u.Query)
	}
	return b.String()
}

func escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), ":", "%3A") }

// Safe writes the URL of a store with its password replaced by xxxxx, also that of
// Sentinels. What is no URL stays as it is.
func Safe(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	u, err := Split(text)
	if err != nil {
		return u.Scheme + "://xxxxx"
	}
	if u.Password != "" {
		u.Password = "xxxxx"
	}
	u.Query = sentinels.ReplaceAllString(u.Query, "${1}${2}xxxxx")
	return u.String()
}

var sentinels = regexp.MustCompile(`(^|&)(sentinel_password=)[^&]*`)

// DefaultHost puts a name where the URL names no host, perhaps but a port, and reports whether it did.
func (u *URL) DefaultHost(name string) bool {
	none := u.Hosts[0] == "" || strings.LastIndexByte(u.Hosts[0], ':') == 0
	if none {
		u.Hosts[0] = name + u.Hosts[0]
	}
	return none
}

// Addresses returns the hosts as HOST:PORT. port is that of hosts without one.
func (u URL) Addresses(port int) (list []string, errs []error) {
	for _, host := range u.Hosts {
		if host, err := address(host, port); err != nil {
			errs = append(errs, err)
		} else {
			list = append(list, host)
		}
	}
	return list, errs
}

func address(host string, port int) (string, error) {
	if plain, err := url.PathUnescape(host); err == nil { // such as the %25 of a zone
		host = plain
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		host = "[" + host + "]"
	}
	colon := strings.LastIndexByte(host, ':')
	if colon <= strings.LastIndexByte(host, ']') {
		colon, host = len(host), host+":"
	}
	name, number := host[:colon], host[colon+1:]
	if number == "" {
		number = strconv.Itoa(port)
	}
	// around addresses of IPv6, and only those
	brackets := strings.Contains(name, ":") == (strings.HasPrefix(name, "[") && strings.HasSuffix(name, "]"))
	odd := strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '@' || r == utf8.RuneError
	})
	if name == "" || !brackets || odd {
		return "", errors.New("the URL names no host: HOST:PORT,HOST:PORT expected")
	}
	if n, err := strconv.ParseUint(number, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%s: a port is a number from 1 to 65535", name)
	}
	return name + ":" + number, nil
}
