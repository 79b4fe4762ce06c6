// Package announcement holds what daemons write into ZooKeeper or etcd so that clients find them, and
// so that they find each other: one JSON object for each daemon. docs/DISCOVERY.md describes it for
// clients in other languages.
package announcement

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of what Parse accepts. They bound what a damaged or hostile entry may cost its readers.
const (
	MaxText        = 8 << 10 // bytes
	MaxAddr        = 261     // bytes: a name of 253, a colon, a port, and brackets
	MaxWorkers     = 64      // as many as a daemon can lease
	MaxVersion     = 64      // bytes
	MaxFingerprint = 512     // bytes
)

// An Announcement is what a daemon says about itself. Fields that Parse does not know are ignored, so
// that later versions may add some.
type Announcement struct {
	// Addr is the host:port where clients reach the memcached port, which speaks Redis's protocol too.
	// Empty while it is not known; clients then skip the daemon.
	Addr    string   `json:"addr"`
	TLS     bool     `json:"tls"`     // the port speaks TLS and nothing else
	Workers []uint64 `json:"workers"` // the worker ids whose leases it holds, ascending
	// Ready: it issues ids, and the port is open. False also means that it is about to stop, so
	// clients move away before the port closes.
	Ready       bool   `json:"ready"`
	At          int64  `json:"at"`          // when this was written, Unix ms of the daemon's clock
	Version     string `json:"version"`     // of the daemon
	Fingerprint string `json:"fingerprint"` // the settings that all daemons of a pool must share
}

// String returns the announcement as daemons write it.
func (a Announcement) String() string {
	if a.Workers == nil {
		a.Workers = []uint64{} // not null
	}
	text, err := json.Marshal(a)
	if err != nil { // none of the fields can fail
		panic(err)
	}
	return string(text)
}

// Parse reads an announcement. Its error says what is wrong; the entry is then to be skipped.
func Parse(text string) (Announcement, error) {
	var a Announcement
	if len(text) > MaxText {
		return a, fmt.Errorf("%d bytes, more than %d", len(text), MaxText)
	}
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return Announcement{}, err
	}
	if err := a.check(); err != nil {
		return Announcement{}, err
	}
	return a, nil
}

// lastMoment is the last Unix ms that a clock may show: the end of the year 9999.
var lastMoment = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).UnixMilli()

func (a *Announcement) check() error {
	switch {
	case a.At < 0 || a.At > lastMoment:
		return fmt.Errorf("at %d: not a time", a.At)
	case len(a.Workers) > MaxWorkers:
		return fmt.Errorf("%d worker ids, more than %d", len(a.Workers), MaxWorkers)
	case len(a.Version) > MaxVersion || len(a.Fingerprint) > MaxFingerprint || !printable(a.Version+a.Fingerprint):
		return errors.New("version or fingerprint: too long, or not text")
	case a.Addr == "":
		return nil
	case len(a.Addr) > MaxAddr:
		return fmt.Errorf("addr of %d bytes, more than %d", len(a.Addr), MaxAddr)
	}
	host, port, err := net.SplitHostPort(a.Addr)
	if err != nil || host == "" || !printable(host) || strings.ContainsRune(host, ' ') {
		return fmt.Errorf("addr %q: not host:port", a.Addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("addr %q: not a port", a.Addr)
	}
	return nil
}

// printable reports whether a text may be logged as it is.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Latest parses the entries of a pool, which are texts by the daemons' names, and returns those that
// are valid. A daemon that was killed and started again has two entries until the session of the first
// one ends. Of several with one address only the latest remains; those without an address all remain.
func Latest(entries map[string]string) map[string]Announcement {
	valid, at := map[string]Announcement{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		a, err := Parse(entries[name])
		if err != nil {
			continue
		}
		if other, ok := at[a.Addr]; ok && a.Addr != "" {
			if valid[other].At > a.At {
				continue
			}
			delete(valid, other)
		}
		valid[name], at[a.Addr] = a, name
	}
	return valid
}
