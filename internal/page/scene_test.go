package page

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/internal/clients"
	"github.com/katsubushi/katsubushi/v3/internal/fleet"
	scripts "github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/steps"
)

// A scene is what a page shows, and who reads it.
type scene struct {
	View
	History *History
	Fleet   *fleet.Roster
	Clients *clients.Top

	remote, host, proto string
	header              http.Header
	waited              []time.Duration // for the fleet
}

// newScene returns a healthy daemon, with clients, and a reader on its host.
func newScene() *scene {
	s := &scene{View: healthy(), Clients: callers(), remote: "127.0.0.1:999", host: "127.0.0.1:8081", proto: "HTTP/1.1",
		header: http.Header{}}
	s.History = past(&s.View)
	return s
}

// see returns the page as a browser or as curl gets it. LONG in its address is more than an address may have.
func (s *scene) see(target, accept string) string {
	target = strings.Replace(target, "LONG", strings.Repeat("x", maxQuery), 1)
	r := httptest.NewRequest("GET", target, nil)
	r.RemoteAddr, r.Host, r.Proto, r.ProtoMinor = s.remote, s.host, s.proto, int(s.proto[len(s.proto)-1]-'0')
	r.Header = s.header.Clone()
	r.Header.Set("Accept", accept)
	c := Config{Read: func() View { return s.View }, History: s.History,
		Clients: func() *clients.Top { return s.Clients }}
	if s.Fleet != nil {
		c.Fleet = func(patience time.Duration) *fleet.Roster {
			s.waited = append(s.waited, patience)
			return s.Fleet
		}
	}
	w := httptest.NewRecorder()
	Handler(c).ServeHTTP(w, r)
	return w.Body.String()
}

// found are the parts of a text that fit a pattern, or its groups; of many the first four and the last one.
func found(text, pattern string) string {
	var list []string
	for _, m := range regexp.MustCompile("(?m)"+pattern).FindAllStringSubmatch(text, -1) {
		list = append(list, cmp.Or(strings.TrimSpace(strings.Join(m[1:], " ")), m[0]))
	}
	if n := len(list); n > 12 {
		list = append(list[:4], fmt.Sprintf("... %d more, and", n-5), list[n-1])
	}
	return strings.Join(list, "\n")
}

func all[T any](show func(T) string) func(...T) string {
	return func(list ...T) string {
		var texts []string
		for _, v := range list {
			texts = append(texts, show(v))
		}
		return strings.Join(texts, "; ")
	}
}

// TestPage plays what readers of a page see, by a pattern: "html" as a browser, "text" as curl gets it.
func TestPage(t *testing.T) {
	steps.Run(t, "testdata/page.txt", func(*testing.T) steps.Calls {
		s := newScene()
		change := func(changes ...string) (err error) {
			for _, c := range changes {
				if err = scripts.Set(s, c); err != nil {
					return err
				}
			}
			return nil
		}
		see := func(accept string) func(target string, pattern ...string) string {
			return func(target string, pattern ...string) string {
				return found(s.see(target, accept), strings.Join(append(pattern, ".+")[:1], ""))
			}
		}
		return steps.Calls{
			"": func() string {
				waited := s.waited
				if s.waited = nil; waited == nil {
					return ""
				}
				return fmt.Sprint("waited ", waited)
			},
			"is": change, "html": see(browser), "text": see(""),
			"short": func(target string) bool { return max(len(s.see(target, browser)), len(s.see(target, ""))) <= 48<<10 },
			// more adds to a list: @ is the number of each
			"more": func(list string, from, to int, changes ...string) (err error) {
				for i := from; i < to && err == nil; i++ {
					for _, c := range changes {
						c = strings.ReplaceAll(c, "@", fmt.Sprintf("%04d", i))
						if err = scripts.Set(s, fmt.Sprint(list, ".", i, ".", c)); err != nil {
							break
						}
					}
				}
				return err
			},
			"layout": func(layout string) (err error) {
				s.Layout, err = generator.ParseLayout(layout)
				return err
			},
			"others": func(layout string) (err error) {
				l, err := generator.ParseLayout(layout)
				s.Others = append(s.Others, l)
				return err
			},
			"id": func(worker, sequence uint64) (uint64, error) {
				return s.Layout.Compose(generator.Parts{Time: noon, Worker: worker, Sequence: sequence})
			},
			"fleet":  func() { s.Fleet = company() },
			"from":   func(remote, host string) { s.remote, s.host = remote, host },
			"speak":  func(proto string) { s.proto = proto },
			"header": func(name, value string) { s.header = http.Header{http.CanonicalHeaderKey(name): {value}} },
			"clients": func() string {
				return fmt.Sprint(strings.Contains(s.see("/", browser), "10.0.0.21"), " ",
					strings.Contains(s.see("/?live=1", browser), "10.0.0.21"), " ", strings.Contains(s.see("/", ""), "10.0.0.21"))
			},
			"number": all(number), "signed": all(signed), "amount": all(amount), "bytes": all(size), "span": all(span),
			"ms": all(ms),
		}
	})
}
