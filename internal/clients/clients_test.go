package clients

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

const port = 11212

// TestLooks: testdata/looks.txt has which connections there are, and what a look finds.
func TestLooks(t *testing.T) {
	steps.Run(t, "testdata/looks.txt", func(*testing.T) steps.Calls {
		var list []socket
		var fault error
		w := &Watch{read: func(_ []netip.AddrPort, each func(socket) bool) error {
			for _, s := range list {
				if !each(s) {
					break
				}
			}
			return fault
		}}
		// its cookie and port are its number
		connect := func(address string, number int, in, out uint64) {
			list = slices.DeleteFunc(list, func(s socket) bool { return s.cookie == uint64(number) })
			list = append(list, socket{
				cookie: uint64(number), local: netip.MustParseAddrPort("10.0.0.1:11212"),
				remote: netip.AddrPortFrom(netip.MustParseAddr(address), uint16(number)), counts: counts{in, out}})
		}
		return steps.Calls{
			"sleep":   time.Sleep,
			"connect": connect,
			"crowd": func(n int) {
				for i := range n {
					connect(fmt.Sprint("10.0.1.", i), i, uint64(i), 0)
				}
			},
			"repeat": func(n int) { list = slices.Repeat(list, n) },
			"end":    func() { list = nil },
			"fail":   func(why string) { fault = map[string]error{"late": errLate, "refused": errRefused}[why] },
			"look": func(at ...string) string {
				var listeners []netip.AddrPort
				for _, a := range append(at, "[::]:11212")[:max(1, len(at))] {
					listeners = append(listeners, netip.MustParseAddrPort(a))
				}
				var said strings.Builder
				top := w.Look(listeners)
				for _, c := range top.Clients {
					fmt.Fprintf(&said, "%s: %d, in %.0f/s, out %.0f/s\n", c.Address, c.Connections, c.In, c.Out)
				}
				fmt.Fprintf(&said, "known %v, partial %v, %d more", top.Known, top.Partial, top.More)
				return said.String()
			},
		}
	})
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
