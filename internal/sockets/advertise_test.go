package sockets

import (
	"log/slog"
	"net"
	"testing"
)

func TestAdvertisedAddressesAreChecked(t *testing.T) {
	for address, good := range map[string]bool{
		"ids.example:11212": true, "10.0.0.1:1": true, "[::1]:65535": true,
		"ids.example": false, ":11212": false, "a b:1": false, "a|b:1": false, "a\n:1": false, "a:0": false, "a:65536": false,
		"a:x": false,
	} {
		if err := CheckAdvertised(address); (err == nil) != good {
			t.Errorf("%q: %v", address, err)
		}
	}
}

// TestAdvertisedCharacters: all that are printed, from ! to ~, but not what separates the parts of a list.
func TestAdvertisedCharacters(t *testing.T) {
	for c := range rune(256) {
		if c == ':' || c == '[' || c == ']' { // net.SplitHostPort's
			continue
		}
		ok := c > ' ' && c <= '~' && c != '|'
		if err := CheckAdvertised("h" + string(c) + ":1"); (err == nil) != ok {
			t.Errorf("%q: %v", c, err)
		}
	}
	for port, ok := range map[string]bool{"0": false, "1": true, "65535": true, "65536": false} {
		if err := CheckAdvertised("h:" + port); (err == nil) != ok {
			t.Errorf("port %s: %v", port, err)
		}
	}
}

// TestNode: what clients of a cluster are told, by where a port listens and what is advertised.
func TestNode(t *testing.T) {
	own := OwnAddress().String()
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 4711} }
	for _, c := range []struct {
		advertised string
		listening  net.Addr
		memcached  bool
		want       string
	}{
		{"", tcp("192.0.2.1"), true, "192.0.2.1|192.0.2.1|4711"},
		{"", tcp("::ffff:192.0.2.1"), false, "192.0.2.1|192.0.2.1|4711"},
		{"", tcp("::"), true, own + "|" + own + "|4711"},
		{"", &net.UnixAddr{Name: "/s"}, true, ""},
		{"198.51.100.7:9", tcp("192.0.2.1"), true, "198.51.100.7|198.51.100.7|9"},
		{"198.51.100.7:9", tcp("192.0.2.1"), false, "198.51.100.7|198.51.100.7|4711"},
		{"198.51.100.7:9", &net.UnixAddr{Name: "/s"}, true, "198.51.100.7|198.51.100.7|9"},
		{"[2001:db8::7]:9", tcp("192.0.2.1"), true, "2001:db8::7|2001:db8::7|9"},
		{"nowhere.invalid:9", tcp("192.0.2.1"), true, "nowhere.invalid||9"},
	} {
		if got := Advertise(c.advertised, slog.New(slog.DiscardHandler)).Node(c.listening, c.memcached); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestAddressTowards: the one that a store sees, but not the loopback address.
func TestAddressTowards(t *testing.T) {
	own := OwnAddress()
	if got := AddressTowards([]string{"no such host:1", "127.0.0.1:2379"}); got != own {
		t.Errorf("towards this host: %v, and its address is %v", got, own)
	}
	if got := AddressTowards([]string{"192.0.2.1:9"}); got != own && !got.IsLoopback() {
		t.Errorf("towards another network: %v", got)
	}
}
