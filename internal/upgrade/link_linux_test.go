package upgrade

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// frame is what another process sends: the length and number that it announces, and a text.
func frame(size, count uint32, text string) []byte {
	b := binary.BigEndian.AppendUint32(nil, size)
	return append(binary.BigEndian.AppendUint32(b, count), text...)
}

// passed sends bytes and copies of the writing end of a pipe to a Link, and ends. It returns what the
// Link received, with a function that reports whether all copies are closed.
func passed(t *testing.T, sent []byte, copies int) (m Message, fds []int, closed func() bool, err error) {
	t.Helper()
	l, other, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	var rights []byte
	if copies > 0 {
		rights = unix.UnixRights(slices.Repeat([]int{int(w.Fd())}, copies)...)
	}
	if len(sent) > 0 {
		if err := unix.Sendmsg(int(other.Fd()), sent, rights, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	other.Close()
	m, fds, err = l.Receive()
	return m, fds, func() bool {
		fd := int(r.Fd()) // it makes the pipe a blocking one
		unix.SetNonblock(fd, true)
		n, err := unix.Read(fd, make([]byte, 1)) // the end, once nobody has the other end
		return n == 0 && err == nil
	}, err
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	const hello = `{"kind":"hello","version":1}`
	n := uint32(len(hello))
	for name, c := range map[string]struct {
		sent   []byte
		copies int
		want   error
	}{
		"nothing":                      {nil, 0, io.EOF},
		"half a header":                {frame(n, 0, hello)[:5], 0, io.EOF},
		"half a text":                  {frame(n, 0, hello)[:12], 3, ErrBroken},
		"half a text, right number":    {frame(n, 3, hello)[:12], 3, io.EOF},
		"too long":                     {frame(maxMessage+1, 0, hello), 0, ErrBroken},
		"no JSON":                      {frame(n, 2, strings.Repeat("x", int(n))), 2, ErrBroken},
		"fewer descriptors than said":  {frame(n, 2, hello), 1, ErrBroken},
		"more descriptors than said":   {frame(n, 1, hello), 2, ErrBroken},
		"more descriptors than fit in": {frame(n, MaxDescriptors+50, hello), MaxDescriptors + 50, ErrBroken},
	} {
		m, fds, closed, err := passed(t, c.sent, c.copies)
		if !errors.Is(err, c.want) || len(fds) > 0 {
			t.Errorf("%s: %+v, %d descriptors, %v", name, m, len(fds), err)
		}
		if !closed() {
			t.Errorf("%s: a descriptor is left open", name)
		}
	}
	m, fds, closed, err := passed(t, frame(n, MaxDescriptors, hello), MaxDescriptors)
	if err != nil || m.Kind != Hello || m.Version != 1 || len(fds) != MaxDescriptors {
		t.Errorf("as many as allowed: %+v, %d descriptors, %v", m, len(fds), err)
	}
	for _, fd := range fds {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("a child would inherit descriptor %d: %v", fd, err)
			break
		}
	}
	if closed() {
		t.Error("a descriptor that the caller owns is closed")
	}
	CloseAll(fds)
	if !closed() {
		t.Error("CloseAll leaves some open")
	}
}

// TestAwait: what a child says instead of what is due, and that descriptors which it has no reason to give
// are closed.
func TestAwait(t *testing.T) {
	for _, c := range []struct {
		said []Message
		want string
	}{
		{[]Message{{Kind: Waiting, Why: "x"}, {Kind: Hello}}, ""},
		{[]Message{{Kind: Refused, Why: "no moon"}}, "refuses: no moon"},
		{[]Message{{Kind: Serving}}, `said "serving" where "hello" was due`},
		{[]Message{{Kind: Kind(strings.Repeat("k", 1000))}}, `said "` + strings.Repeat("k", 40) + `" where`},
	} {
		l, other, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		far, err := newLink(other)
		if err != nil {
			t.Fatal(err)
		}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.said {
			if err := far.Send(m, int(w.Fd())); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		m, err := (&Child{Link: l}).Await(context.Background(), Hello)
		if c.want == "" && (err != nil || m.Kind != Hello) || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %+v, %v", c.said, m, err)
		}
		if n, err := unix.Read(int(r.Fd()), make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("%v: a descriptor is left open: %v", c.said, err)
		}
		l.Close()
		far.Close()
		r.Close()
	}
}

// FuzzReceive: whatever a process sends, with descriptors, is a message or refused, and nothing is left open.
func FuzzReceive(f *testing.F) {
	const moved = `{"kind":"moved","moved":[{"port":"memcached","in":"Zw=="}]}`
	f.Add(frame(uint32(len(moved)), 1, moved), 1)
	f.Add(frame(3, 0, "{}"), 2)
	f.Add(frame(1<<31, 1<<31, ""), 0)
	f.Fuzz(func(t *testing.T, sent []byte, copies int) {
		if copies = int(uint(copies) % 200); len(sent) == 0 || len(sent) > 4096 {
			return
		}
		if len(sent) >= 4 && binary.BigEndian.Uint32(sent) < 1<<30 {
			sent[0], sent[1] = 0, 0 // not a gigabyte for each input
		}
		_, fds, closed, err := passed(t, sent, copies)
		if err == nil && len(fds) != copies || err != nil && len(fds) > 0 {
			t.Errorf("%d descriptors of %d, %v", len(fds), copies, err)
		}
		CloseAll(fds)
		if !closed() {
			t.Errorf("a descriptor is left open: %v", err)
		}
	})
}
