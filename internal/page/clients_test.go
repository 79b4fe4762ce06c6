package page

import (
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/internal/clients"
)

// callers are clients in which each fact is another one.
func callers() *clients.Top {
	return &clients.Top{Known: true, More: 1234, Partial: true, Clients: []clients.Client{
		{Address: "10.0.0.21", Connections: 2001, In: 5 << 20, Out: 6 << 20},
		{Address: "2001:db8:0:1::/64", Connections: 22, In: 0, Out: 512}, {Address: "::1", Connections: 1, In: -1, Out: -1},
	}}
}

// section cuts out what a text says of clients.
func section(t *testing.T, text, begin, end string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, begin)
	if !found {
		t.Fatalf("no clients are shown: %s", text)
	}
	inside, _, _ := strings.Cut(rest, end)
	return begin + inside + end
}

// TestClientsAreShown compares them with testdata/clients.*.golden.
func TestClientsAreShown(t *testing.T) {
	s := newScene()
	html := section(t, s.see("/", browser), `<section id="clients"`, "</section>")
	golden(t, "clients.html", strings.ReplaceAll(html, "<t", "\n<t"))
	if live := s.see("/?live=1", browser); !strings.Contains(live, html) {
		t.Errorf("another section is refreshed: %s", live)
	}
	golden(t, "clients.txt", section(t, s.see("/", ""), "\nCLIENT", "\n\n"))
}
