package announced

import (
	"fmt"
	"testing"

	"github.com/katsubushi/katsubushi/v3/announcement"
)

func TestServers(t *testing.T) {
	got := Servers(map[string]string{
		"a": announcement.Announcement{Addr: "10.0.0.1:1", Ready: true}.String(),
		"b": announcement.Announcement{Addr: "10.0.0.2:1"}.String(),
		"c": announcement.Announcement{Ready: true}.String(),
		"d": "nonsense",
		"e": announcement.Announcement{Addr: "[fd00::1]:1", Ready: true}.String(),
		"f": announcement.Announcement{Addr: "10.0.0.1:1", Ready: true, At: 5}.String(),
	})
	if want := "[{[fd00::1]:1  0} {10.0.0.1:1  0}]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
