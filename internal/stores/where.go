package stores

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

// Where returns where sequences are recorded, as a command says it: a directory, or a URL without its
// password.
func (c Counters) Where() string {
	if c.Files() {
		return fileCounters{c}.directory()
	}
	return endpoint.Safe(c.URL)
}

// Place names what is recorded there: Counters with another one have other sequences. How the store is reached is not
// part of it.
func (c Counters) Place() string {
	if c.Files() {
		dir := fileCounters{c}.directory()
		if dir == "" {
			return "nowhere"
		}
		if abs, err := filepath.Abs(dir); err == nil {
			dir = abs
		}
		return dir
	}
	u, _ := endpoint.Split(c.URL)
	place := strings.Join(u.Hosts, ",") + "/" + u.Path
	options, _ := url.ParseQuery(u.Query)
	for _, name := range []string{"ns", "socket", "table"} {
		if options.Has(name) {
			place += " " + name + "=" + options.Get(name)
		}
	}
	return place
}
