package announced

import (
	"slices"
	"testing"

	"github.com/katsubushi/katsubushi/v3/announcement"
	"github.com/katsubushi/katsubushi/v3/client"
)

func TestServers(t *testing.T) {
	got := Servers(map[string]string{
		"a": announcement.Announcement{Addr: "10.0.0.1:1", Ready: true}.String(),
		"b": announcement.Announcement{Addr: "10.0.0.2:1"}.String(),
		"c": announcement.Announcement{Ready: true}.String(),
		"d": "nonsense",
		"e": announcement.Announcement{Addr: "[fd00::1]:1", Ready: true, TLS: true}.String(),
		"f": announcement.Announcement{Addr: "10.0.0.1:1", Ready: true, At: 5}.String(),
	})
	want := []client.Server{{Addr: "[fd00::1]:1", TLS: client.SpeaksTLS}, {Addr: "10.0.0.1:1", TLS: client.SpeaksPlain}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
