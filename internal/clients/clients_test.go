package clients

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

const port = 11212

var listener = []netip.AddrPort{netip.MustParseAddrPort("[::]:11212")}

// from makes a connection, whose cookie and port are its number.
func from(address string, number int, in, out uint64) socket {
	return socket{
		cookie: uint64(number), local: netip.MustParseAddrPort("10.0.0.1:11212"),
		remote: netip.AddrPortFrom(netip.MustParseAddr(address), uint16(number)), counts: counts{in, out}}
}

// watching returns a Watch of the connections that the function returns.
func watching(now func() ([]socket, error)) *Watch {
	return &Watch{read: func(_ []netip.AddrPort, each func(socket) bool) error {
		list, err := now()
		for _, s := range list {
			if !each(s) {
				break
			}
		}
		return err
	}}
}

// brief writes a top in a line for each client.
func brief(t Top) (lines []string) {
	for _, c := range t.Clients {
		lines = append(lines, fmt.Sprintf("%s %d %.0f %.0f", c.Address, c.Connections, c.In, c.Out))
	}
	return lines
}

// TestClientsAreAddedUp by what counts as a peer, and put in order: by connections, then by bytes.
func TestClientsAreAddedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := []socket{
			from("10.0.0.9", 1, 5, 5), from("10.0.0.7", 2, 5, 7), from("10.0.0.8", 3, 5, 6),
			from("2001:db8:0:1::1", 4, 0, 0), from("2001:db8:0:1:ffff::2", 5, 0, 0), from("2001:db8:0:2::1", 6, 0, 0),
			from("10.0.0.9", 7, 100, 300), from("10.0.0.9", 8, 0, 0),
		}
		w := watching(func() ([]socket, error) { return list, nil })
		want := []string{"10.0.0.9 3 -1 -1", "2001:db8:0:1::/64 2 -1 -1", "10.0.0.7 1 -1 -1", "10.0.0.8 1 -1 -1",
			"2001:db8:0:2::1 1 -1 -1"}
		first := w.Look(listener)
		if got := brief(first); !slices.Equal(got, want) || !first.Known || first.Partial || first.More != 0 {
			t.Errorf("%q, want %q; %+v", got, want, first)
		}
		// One has ended, and one has begun.
		list = []socket{from("10.0.0.9", 1, 25, 45), from("10.0.0.9", 9, 10, 20), from("10.0.0.7", 2, 5, 7)}
		time.Sleep(Every - 1)
		if again := w.Look(listener); !reflect.DeepEqual(again, first) {
			t.Errorf("the kernel is asked again at once: %+v", again)
		}
		time.Sleep(Every + 1)
		want = []string{"10.0.0.9 2 3 6", "10.0.0.7 1 0 0"}
		if got := brief(w.Look(listener)); !slices.Equal(got, want) {
			t.Errorf("after 10 s: %q, want %q", got, want)
		}
		time.Sleep(memory + 1)
		if got := brief(w.Look(listener)); got[0] != "10.0.0.9 2 -1 -1" {
			t.Errorf("after a pause: %q", got)
		}
	})
}

// TestTenAreShown and the rest counted.
func TestTenAreShown(t *testing.T) {
	var list []socket
	for i := range 25 {
		list = append(list, from(fmt.Sprintf("10.0.1.%d", i), i, uint64(i), 0))
	}
	top := watching(func() ([]socket, error) { return list, nil }).Look(listener)
	if n := len(top.Clients); n != 10 || top.More != 15 || top.Clients[0].Address != "10.0.1.24" ||
		top.Clients[9].Address != "10.0.1.15" {
		t.Errorf("%d are shown: %+v", n, top)
	}
}

// TestOthersPorts: connections of another daemon on this host, or to another address of it, do not count.
func TestOthersPorts(t *testing.T) {
	list := []socket{from("10.0.0.9", 1, 0, 0)}
	for at, want := range map[string]int{
		"[::]:11212": 1, "0.0.0.0:11212": 1, "10.0.0.1:11212": 1, "[::ffff:10.0.0.1]:11212": 1,
		"10.0.0.2:11212": 0, "[::]:11213": 0,
	} {
		top := watching(func() ([]socket, error) { return list, nil }).Look([]netip.AddrPort{netip.MustParseAddrPort(at)})
		if len(top.Clients) != want || !top.Known {
			t.Errorf("%s: %+v", at, top)
		}
	}
}

// TestLooksAreBounded, in connections and in time. Where the kernel refuses, nothing is known.
func TestLooksAreBounded(t *testing.T) {
	var list []socket
	var err error
	look := func() Top { return watching(func() ([]socket, error) { return list, err }).Look(listener) }
	one := from("10.0.0.9", 1, 0, 0)
	for range maxSockets {
		list = append(list, one)
	}
	if top := look(); top.Partial || top.Clients[0].Connections != maxSockets {
		t.Errorf("at the limit: %+v", top)
	}
	list = append(list, one)
	if top := look(); !top.Partial || top.Clients[0].Connections != maxSockets {
		t.Errorf("one more: %+v", top)
	}
	list, err = list[:1], errLate
	if top := look(); !top.Partial || !top.Known || len(top.Clients) != 1 {
		t.Errorf("too late: %+v", top)
	}
	err = errors.New("refused")
	if top := look(); top.Known || top.Clients != nil {
		t.Errorf("refused: %+v", top)
	}
}

// message makes a message of the kernel's.
func message(kind uint16, number uint32, body []byte) []byte {
	b := make([]byte, headerSize, headerSize+len(body))
	native.PutUint32(b, uint32(headerSize+len(body)))
	native.PutUint16(b[4:], kind)
	native.PutUint32(b[8:], number)
	return append(b, body...)
}

// described makes the body of a message about a connection of an IPv4 address that has counted 7 and 9 bytes.
func described() []byte {
	b := make([]byte, socketSize, 256)
	b[0], b[1] = inet, established
	binary.BigEndian.PutUint16(b[4:], port)
	binary.BigEndian.PutUint16(b[6:], 999)
	copy(b[8:], []byte{10, 0, 0, 1})
	copy(b[24:], []byte{10, 0, 0, 9})
	native.PutUint32(b[44:], 11)
	native.PutUint32(b[48:], 12)
	b = append(b, 5, 0, 8, 0, 1, 0, 0, 0) // another attribute, of 5 bytes, and what fills it up
	value := make([]byte, 4+receivedAt+8)
	native.PutUint16(value, uint16(len(value)))
	native.PutUint16(value[2:], info)
	native.PutUint64(value[4+ackedAt:], 9)
	native.PutUint64(value[4+receivedAt:], 7)
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 { // the other attribute, on hosts that are big-endian
		copy(b[socketSize:], []byte{0, 5, 0, 8})
	}
	return append(b, value...)
}

// TestMessages reads what the kernel may send, and what it never does.
func TestMessages(t *testing.T) {
	good := message(byFamily, 3, described())
	want := socket{cookie: 12<<32 | 11, local: netip.MustParseAddrPort("10.0.0.1:11212"),
		remote: netip.MustParseAddrPort("10.0.0.9:999"), counts: counts{7, 9}}
	long := slices.Clone(good)
	native.PutUint32(long, uint32(len(long)+1))
	endless := slices.Clone(good)
	native.PutUint32(endless, 0)
	attribute := described()
	native.PutUint16(attribute[socketSize:], 0xffff)
	for name, c := range map[string]struct {
		b     []byte
		n     int
		ended bool
		err   error
	}{
		"two":               {slices.Concat(good, good), 2, false, nil},
		"the end":           {slices.Concat(good, message(done, 3, make([]byte, 4)), good), 1, true, nil},
		"a failure":         {message(failed, 3, make([]byte, 20)), 0, true, errRefused},
		"a failure later":   {message(done, 3, []byte{255, 255, 255, 255}), 0, true, errRefused},
		"of another one":    {slices.Concat(message(done, 2, make([]byte, 4)), good), 1, false, nil},
		"a long message":    {long, 0, true, errMalformed},
		"a length of 0":     {endless, 0, true, errMalformed},
		"half a header":     {good[:headerSize-1], 0, true, errMalformed},
		"half a connection": {message(byFamily, 3, described()[:socketSize-1]), 0, true, errMalformed},
		"a long attribute":  {message(byFamily, 3, attribute), 0, true, errMalformed},
	} {
		n := 0
		ended, err := parse(c.b, 3, func(s socket) bool {
			if n++; s != want {
				t.Errorf("%s: %+v, want %+v", name, s, want)
			}
			return true
		})
		if n != c.n || ended != c.ended || err != c.err {
			t.Errorf("%s: %d, ended %v, error %v", name, n, ended, err)
		}
	}
}

// FuzzParse: whatever the kernel sends, it is read to an end, and at most one connection for each header.
func FuzzParse(f *testing.F) {
	f.Add(slices.Concat(message(byFamily, 3, described()), message(done, 3, make([]byte, 4))))
	f.Add(message(failed, 3, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		_, err := parse(b, 3, func(s socket) bool {
			if n++; !s.remote.Addr().IsValid() || s.remote.Addr().Is4In6() {
				t.Errorf("a connection of %v", s.remote)
			}
			return true
		})
		if n > len(b)/(headerSize+socketSize) {
			t.Errorf("%d connections in %d bytes; error %v", n, len(b), err)
		}
	})
}
