// Package page is the status page of the HTTP port: what the daemon does, what is wrong and what to do,
// and an inspector of ids. It is one HTML document that needs no other file and no JavaScript; clients
// that do not ask for HTML, such as curl, get the same as plain text.
//
// The guarantee: whatever a text says that is shown, it is escaped; nothing of a request is shown again
// but an id that could be read, and what names were searched for; and a request changes nothing. The work for one
// request is bounded by what the daemon has (its lanes, its names), not by the request, and what is sent is
// bounded whatever it has.
package page

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/internal/clients"
	"github.com/katsubushi/katsubushi/v3/internal/fleet"
)

// Config says what is shown. Any goroutine calls Read, once for each request.
type Config struct {
	Read    func() View
	History *History
	// Fleet returns what is known of all daemons; nil = they are not announced. It waits for their answers, but not
	// for longer than patience.
	Fleet func(patience time.Duration) *fleet.Roster
	// Clients returns the largest clients; nil, or a nil result = they are not shown. Only readers on this host see them.
	Clients func() *clients.Top
}

// Handler answers every request with the page, whatever its method and path: whoever serves it chooses
// those. The query id=... has an id taken apart; live=1 gets only the parts that change by themselves,
// for the page's own script.
func Handler(c Config) http.Handler {
	policy := Policy()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		html := strings.Contains(r.Header.Get("Accept"), "text/html")
		d := newDocument(c.Read(), c.History, r.URL.RawQuery, html)
		kind, render := "text/plain", d.plain
		if html || d.asked == nil {
			d.fleet, d.clients = c.fleetFor(d.live, html), c.clientsFor(r)
		}
		if html {
			kind, render = "text/html", d.html
		}
		secure(w.Header(), kind, policy)
		w.Write(render())
	})
}

// secure sets the headers of an answer.
func secure(h http.Header, kind, policy string) {
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Type", kind+"; charset=utf-8")
	if kind == "text/html" {
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY") // what frame-ancestors says, for old browsers
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
	}
}

// Policy is the Content-Security-Policy of the page: it runs and shows what is in the document, and
// reaches nothing but the daemon that it came from.
func Policy() string {
	hash := func(s markup) string {
		sum := sha256.Sum256([]byte(s))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; style-src " + hash(css) + "; script-src " + hash(script) +
		"; img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
}

// maxQuery is how many bytes of a query are read. No id or name with everything escaped is that long.
const maxQuery = 1024

func newDocument(v View, h *History, query string, html bool) *document {
	d := &document{View: v, samples: h.all(v.Now)}
	d.found, d.more = findings(&d.View, d.samples)
	var q url.Values
	if len(query) > maxQuery {
		d.asked = &answer{Problem: "This is not an id: it is too long."}
	} else {
		q, _ = url.ParseQuery(query) // what cannot be read is left out
	}
	d.live = q.Get("live") != ""
	if q.Has("id") {
		d.asked = inspectText(&d.View, q.Get("id"))
	}
	size := plainNames
	if html {
		size = pageOfNames
	}
	d.listed = d.lists(q, size)
	return d
}

// workers returns the worker ids that the daemon has: "1, 2".
func (v *View) workers() string {
	var list []uint64
	for _, l := range v.Lanes {
		if l.HasWorker {
			list = append(list, l.Worker)
		}
	}
	if len(list) == 0 {
		return "none"
	}
	return Ranges(list)
}
