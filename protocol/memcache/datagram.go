package memcache

import (
	"bytes"
	"encoding/binary"

	"github.com/katsubushi/katsubushi/v3/protocol"
)

// memcached's protocol over UDP: each datagram, in both directions, begins with a frame, and text
// follows.
//
//	 0          2          4          6          8
//	│request id│sequence  │datagrams │reserved  │
//
// A sender's address can be forged, so a reply must not be worth forging it for: it is never many
// times as long as the request, and where it would be there is none. For the same reason nothing
// but asking for ids, and whether we are there, is understood.
const (
	// MaxDatagram bounds a request and a reply, in bytes, frame included: what fits into one packet
	// nearly everywhere.
	MaxDatagram = 1400
	// MaxAmplification bounds a reply to so many times the bytes of its request.
	MaxAmplification = 4

	datagramFrame = 8
	leastValue    = len("VALUE k 0 1\r\n1\r\n") // bytes of the answer to a key, with the shortest key and id
)

// Datagram answers a request that came over UDP: it appends the datagram that is to be sent back to
// out, or nothing. No reply is longer than MaxDatagram or MaxAmplification times the request: one
// that would be is an error instead, and a reason that is, is cut. There is no reply to what is not
// one line exactly, is one of several datagrams, or asks for anything but ids, the version or mn;
// and none at all if Auth is set, since there is no connection that could be trusted. It counts in
// the Config's Counters, and may be called from any goroutine. It keeps neither slice.
func Datagram(c *protocol.Config, now int64, in, out []byte) []byte {
	text, ok := datagramText(in)
	if !ok || c.Auth != nil {
		return out
	}
	begin, room := len(out), min(MaxDatagram, MaxAmplification*len(in))
	asked, fits := mayBeAsked(text, room-datagramFrame)
	if !asked {
		return out
	}
	out = append(out, in[0], in[1], 0, 0, 0, 1, 0, 0)
	body := len(out)
	if fits {
		s := Session{config: c, state: line} // no first byte chooses another grammar
		_, out, _ = s.Feed(now, text, out)
		if len(out) == body {
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

// datagramText takes the frame off a request, and tells whether one whole line is all that it
// holds.
func datagramText(in []byte) (text []byte, ok bool) {
	if len(in) <= datagramFrame || len(in) > MaxDatagram {
		return nil, false
	}
	sequence, datagrams := binary.BigEndian.Uint16(in[2:]), binary.BigEndian.Uint16(in[4:])
	text = in[datagramFrame:]
	return text, sequence == 0 && datagrams == 1 && bytes.IndexByte(text, '\n') == len(text)-1
}

// mayBeAsked tells whether a line asks for something that datagrams may ask for, and whether room
// bytes may be enough for the reply. Keys for which they cannot be are not even looked up: else a
// few forged bytes would use up many ids.
func mayBeAsked(text []byte, room int) (asked, fits bool) {
	verb, rest, _ := cut(trim(text))
	switch string(lower(make([]byte, 0, longestVerb), verb)) {
	case "get", "gets", "gat", "gats":
		return true, countKeys(rest)*leastValue <= room
	case "mg", "mn", "version":
		return true, true
	}
	return false, false
}
