package memcache

import (
	"bytes"
	"encoding/binary"

	"github.com/katsubushi/katsubushi/v3/id"
	"github.com/katsubushi/katsubushi/v3/protocol"
)

// memcached's protocol over UDP. Each datagram, in both directions, begins with a frame; text
// follows.
//
//	 0          2          4          6          8
//	│request id│sequence  │datagrams │reserved  │
//
// A sender's address can be forged, so a reply must not be worth forging it for. No reply is longer
// than maxAmplification times its request. For the same reason only requests for ids, and requests
// that ask whether the server is there, are understood, and none that a memcached's reply may begin
// with: a request with the address of another server, or of this one, would have the two answer each
// other's replies without end.
const (
	// maxDatagram limits a request and a reply, in bytes, frame included: a datagram that fits into
	// one packet almost everywhere.
	maxDatagram = 1400
	// maxAmplification limits a reply to this many times the bytes of its request.
	maxAmplification = 4

	datagramFrame = 8
	leastValue    = len("VALUE k 0 1\r\n1\r\n") // bytes of the answer to a key, with the shortest key and id
)

// Datagram answers a request that came over UDP: it appends the datagram to send back to out, or
// nothing. No reply is longer than maxDatagram, or than maxAmplification times the request: instead
// of a longer reply it sends an error, and it cuts a reason that is too long. It sends no reply if
// the request is not exactly one line, is one of several datagrams, asks for anything but ids, the
// version or mn, is a reply, or would have to wait: the client asks again, or the caller. It never
// replies if Auth is set, because UDP has no connection to authenticate. It counts in the Config's
// Counters and keeps neither slice. Any goroutine may call it.
func Datagram(c *protocol.Config, now int64, in, out []byte) []byte {
	text, ok := datagramText(in)
	if !ok || c.Auth != nil {
		return out
	}
	begin, room := len(out), min(maxDatagram, maxAmplification*len(in))
	asked, fits := mayBeAsked(text, room-datagramFrame)
	if !asked {
		return out
	}
	out = append(out, in[0], in[1], 0, 0, 0, 1, 0, 0)
	body := len(out)
	if fits {
		s := Session{config: c, state: lineOverUDP} // the first byte does not choose another grammar
		var err error
		_, out, err = s.Feed(now, text, out)
		if len(out) == body || err == id.ErrWait {
			return out[:begin]
		}
		fits = len(out)-begin <= room
	}
	if !fits && !bytes.HasPrefix(out[body:], []byte("SERVER_ERROR ")) {
		c.Counters.Add(protocol.TooLong, 1)
		out = append(out[:body], errDatagram...)
	}
	if len(out)-begin > room {
		out = append(out[:begin+room-2], "\r\n"...)
	}
	return out
}

const errDatagram = "SERVER_ERROR reply too long for a datagram\r\n"

// datagramText removes the frame from a request, and reports whether the rest is exactly one line.
func datagramText(in []byte) (text []byte, ok bool) {
	if len(in) <= datagramFrame || len(in) > maxDatagram {
		return nil, false
	}
	sequence, datagrams := binary.BigEndian.Uint16(in[2:]), binary.BigEndian.Uint16(in[4:])
	text = in[datagramFrame:]
	return text, sequence == 0 && datagrams == 1 && bytes.IndexByte(text, '\n') == len(text)-1
}

// mayBeAsked reports whether a datagram may ask for what the line asks for, and whether room bytes
// may be enough for the reply. If they cannot be, the keys are not even looked up; otherwise a few
// forged bytes would use up many ids.
func mayBeAsked(text []byte, room int) (asked, fits bool) {
	verb, rest, _ := cut(trim(text))
	switch string(verb) {
	case "mn", "version": // in lower case alone: in upper case they are replies
		return true, true
	}
	switch string(lower(make([]byte, 0, longestVerb), verb)) {
	case "get", "gets", "gat", "gats":
		return true, countKeys(rest)*leastValue <= room
	case "mg":
		return true, true
	}
	return false, false
}
