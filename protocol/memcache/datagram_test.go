package memcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/protocol"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/transcript"
)

// A transcript in testdata/udp has one datagram in each C line, frame included, followed by its
// reply.

func TestDatagramTranscripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/udp/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, path := range paths {
		tr := transcript.Read(t, path)
		for _, b := range tr.Talks {
			if *update {
				break
			}
			var got []byte
			c := session(t, &b).config
			for _, request := range b.Sent {
				got = append(got, checkedDatagram(t, c, request)...)
			}
			if !bytes.Equal(got, b.Want) {
				t.Errorf("%s: %s\n got %q\nwant %q", path, b.Name, got, b.Want)
			}
		}
		if *update {
			tr.Rewrite(t, func(b *transcript.Talk) func(request []byte) []string {
				c := session(t, b).config
				return func(request []byte) []string {
					reply := checkedDatagram(t, c, request)
					if len(reply) == 0 {
						return nil
					}
					return append([]string{fmt.Sprintf("S# %x %x %x %x", reply[:2], reply[2:4], reply[4:6], reply[6:8])},
						encode(reply[datagramFrame:])...)
				}
			})
		}
	}
}

// checkedDatagram answers a request and checks the reply against what every reply promises.
func checkedDatagram(t *testing.T, c *protocol.Config, request []byte) []byte {
	t.Helper()
	const before = "what was said before"
	in := bytes.Clone(request)
	reply := Datagram(c, 1, in, []byte(before))
	if !bytes.Equal(in, request) || !bytes.HasPrefix(reply, []byte(before)) {
		t.Fatalf("%q: the request or what was said before is changed", request)
	}
	reply = reply[len(before):]
	switch {
	case len(reply) == 0:
	case len(reply) > maxDatagram, len(reply) > maxAmplification*len(request):
		t.Fatalf("%q, %d bytes, is answered with %d", request, len(request), len(reply))
	case len(reply) <= 8, !bytes.Equal(reply[:2], request[:2]), !bytes.Equal(reply[2:8], []byte{0, 0, 0, 1, 0, 0}),
		!bytes.HasSuffix(reply, []byte("\r\n")):
		t.Fatalf("%q is answered with %q", request, reply)
	}
	unanswered(t, c, reply)
	return reply
}

// unanswered checks that a reply draws no reply, neither as it is nor in other frames: if it did, a request
// with the address of another daemon, or of this one, would have two of them talk without end.
func unanswered(t *testing.T, c *protocol.Config, reply []byte) {
	t.Helper()
	for _, line := range append(bytes.SplitAfter(reply, []byte("\n")), reply[min(len(reply), datagramFrame):]) {
		for _, in := range [][]byte{reply, line, datagram(string(line))} {
			if again := Datagram(c, 1, in, nil); len(again) > 0 {
				t.Fatalf("the reply %q draws the reply %q", in, again)
			}
		}
	}
}

// TestNoReplyDrawsAReply: neither this server's, over any transport, nor memcached's.
func TestNoReplyDrawsAReply(t *testing.T) {
	s := newSession(newFake())
	s.config.Cluster = "a|b|1"
	for _, input := range corpus(t) {
		reply := answerTo(t, newSession(newFake()), []byte(input.in))
		for line := range bytes.SplitAfterSeq(reply[:min(len(reply), 10*maxDatagram)], []byte("\n")) {
			unanswered(t, s.config, datagram(string(line)))
		}
	}
	const words = "ERROR CLIENT_ERROR SERVER_ERROR STORED NOT_STORED EXISTS NOT_FOUND END VALUE VA HD EN NS EX " +
		"NF MN ME DELETED TOUCHED OK STAT RESET " +
		"VERSION BUSY BADCLASS NOSPARE NOTFULL UNSAFE SAME CONFIG OPEN WATCHER IDS 0 7"
	rests := []string{"", " ", " 1.6.45", " id", " get id", " version", " id v k O1", " id 0 1",
		" 7 s7 c7 t-1 kid b Oget"}
	for _, word := range strings.Fields(words) {
		for _, rest := range rests {
			unanswered(t, s.config, datagram(word+rest+"\r\n"))
			unanswered(t, s.config, datagram(word+rest+"\n"))
		}
	}
}

func datagram(text string) []byte { return append([]byte{7, 9, 0, 0, 0, 1, 0, 0}, text...) }

// TestADatagramUsesUpFewIDs: a reply that is thrown away costs its sender nothing, whoever the
// sender is.
func TestADatagramUsesUpFewIDs(t *testing.T) {
	f := newFake()
	c := newSession(f).config
	for _, keys := range []int{1, 2, 50, 600, 690} {
		before := f.Used[""]
		request := datagram("get" + strings.Repeat(" k", keys) + "\r\n")
		checkedDatagram(t, c, request)
		if n := f.Used[""] - before; n > maxDatagram/leastValue || n > maxAmplification*len(request)/leastValue {
			t.Errorf("%d keys: %d ids issued", keys, n)
		}
	}
}

func TestADatagramIsAnsweredWithoutAllocating(t *testing.T) {
	c, request, out := countingSession().config, datagram("get id\r\n"), make([]byte, 0, maxDatagram)
	if n := testing.AllocsPerRun(100, func() { out = Datagram(c, 1, request, out[:0]) }); n != 0 || len(out) == 0 {
		t.Errorf("%v allocations for %q", n, out)
	}
}

// TestDatagramsAgainstMemcached: this server gives the same replies as memcached, and none where
// memcached gives none.
func TestDatagramsAgainstMemcached(t *testing.T) {
	port := strconv.Itoa(redistest.FreePort(t))
	m := startMemcached(t, "-U", port)
	for _, k := range storedKeys {
		m.ask(t, fmt.Appendf(nil, "set %s 0 0 %d\r\n%s\r\n", k, len(storedValue), storedValue), []byte("STORED\r\n"), false)
	}
	c, err := net.Dial("udp4", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	const answered, silent = true, false
	for request, want := range map[string]bool{
		"\x00\x01\x00\x00\x00\x01\x00\x00get id\r\n": answered, "\x00\x02\x00\x00\x00\x01\x00\x00get id\n": answered,
		"\xff\x03\x00\x00\x00\x01\x00\x00gat 0 id\r\n": answered, "\x00\x04\x00\x00\x00\x01\xff\xffget id\r\n": answered,
		"\x00\x05\x00\x00\x00\x01\x00\x00mn\r\n": answered, "\x00\x06\x00\x00\x00\x01\x00\x00get\r\n": answered,
		"\x00\x07\x00\x00\x00\x01\x00\x00mg id v\r\n": answered,
		"\x00\x11\x00\x00\x00\x02\x00\x00get id\r\n":  silent, "\x00\x12\x00\x00\x00\x01\x00\x00get id": silent,
		"\x00\x13\x00\x00\x00\x01":         silent,
		"\x00\x14\x00\x00\x00\x01\x00\x00": silent, "\x00\x15\x00\x00\x00\x00\x00\x00get id\r\n": silent,
		"\x00\x08\x00\x00\x00\x01\x00\x00get " + strings.Repeat("k", 251) + "\r\n": answered,
	} {
		h := newFake()
		h.Next[""] = 1500000000000000000
		ours := Datagram(newSession(h).config, 1, []byte(request), nil)
		theirs := askUDP(t, c, []byte(request))
		if !bytes.Equal(ours, theirs) || (len(ours) > 0) != want {
			t.Errorf("%q\n them %q\n us   %q", request, theirs, ours)
		}
	}
}

// askUDP returns the reply to a request, if one comes before the reply to a probe sent after it.
func askUDP(t *testing.T, c net.Conn, request []byte) (answer []byte) {
	c.Write(request)
	c.Write([]byte("\xee\xee\x00\x00\x00\x01\x00\x00mn\r\n"))
	for b := make([]byte, 2*maxDatagram); ; {
		n, err := c.Read(b)
		if err != nil {
			t.Fatalf("after %q: %v", request, err)
		}
		if bytes.HasPrefix(b[:n], []byte("\xee\xee")) {
			return answer
		}
		answer = append(answer, b[:n]...)
	}
}

// FuzzDatagram: for any input, a reply keeps its promises, and a request that is not exactly one
// datagram gets none.
func FuzzDatagram(f *testing.F) {
	paths, _ := filepath.Glob("testdata/udp/*.txt")
	for _, path := range paths {
		for _, b := range transcript.Read(f, path).Talks {
			for _, request := range b.Sent {
				f.Add(request, uint8(0))
			}
		}
	}
	f.Fuzz(func(t *testing.T, request []byte, budget uint8) {
		h := newFake()
		h.Budget = int(budget % 8)
		s := newSession(h)
		s.config.Cluster = "a|b|1"
		reply := checkedDatagram(t, s.config, request)
		if len(reply) > 0 &&
			(binary.BigEndian.Uint32(request[2:]) != 1 || bytes.Count(request[datagramFrame:], []byte{'\n'}) != 1) {
			t.Fatalf("%q is answered with %q", request, reply)
		}
		s.config.Auth = transcript.Logins(s.config, func(user, password []byte) bool { return true })
		if reply := Datagram(s.config, 1, request, nil); len(reply) > 0 {
			t.Fatalf("%q is answered without a login: %q", request, reply)
		}
	})
}
