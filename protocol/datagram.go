package protocol

import (
	"bytes"
	"encoding/binary"
)

// memcached's protocol over UDP: each datagram, in both directions, begins with a frame, and text follows.
//
//	 0          2          4          6          8
//	│request id│sequence  │datagrams │reserved  │
//
// A sender's address can be forged, so a reply must not be worth forging it for: it is never many times as long as the request, and
// where it would be there is none. For the same reason nothing but asking for ids, and whether we are there, is understood.
const (
	// MaxDatagram bounds a request and a reply, in bytes, frame included: what fits into one packet nearly everywhere.
	MaxDatagram = 1400
	// MaxAmplification bounds a reply to so many times the bytes of its request.
	MaxAmplification = 4

	datagramFrame = 8
	leastValue    = len("VALUE k 0 1\r\n1\r\n") // bytes of the answer to a key, with the shortest key and id
)

// Datagram answers a request that came over UDP: it appends the datagram that is to be sent back to out, or nothing. No reply is longer than
// MaxDatagram or MaxAmplification times the request; a reason that is, is cut. There is none to a request that has not one line exactly, is one
// of several datagrams, asks for anything but ids, the version or mn, or whose reply is too long; and none at all if Auth is set, since
// there is no connection that could be trusted. It counts in the Config's Counters, and may be called from any goroutine. It keeps neither slice.
func (c *Config) Datagram(now int64, in, out []byte) []byte {
	text, ok := datagramText(in)
	room := min(MaxDatagram, MaxAmplification*len(in))
	if !ok || c.Auth != nil || !mayBeAsked(text, room-datagramFrame) {
		return out
	}
	begin := len(out)
	out = append(out, in[0], in[1], 0, 0, 0, 1, 0, 0)
	s := Session{config: c, state: line} // no first byte chooses another grammar
	_, out, _ = s.Feed(now, text, out)
	size := len(out) - begin
	switch {
	case size == datagramFrame:
		return out[:begin]
	case size <= room:
		return out
	case bytes.HasPrefix(out[begin+datagramFrame:], []byte("SERVER_ERROR ")):
		return append(out[:begin+room-2], "\r\n"...)
	}
	return out[:begin]
}

// datagramText takes the frame off a request, and tells whether one whole line is all that it holds.
func datagramText(in []byte) (text []byte, ok bool) {
	if len(in) <= datagramFrame || len(in) > MaxDatagram {
		return nil, false
	}
	sequence, datagrams := binary.BigEndian.Uint16(in[2:]), binary.BigEndian.Uint16(in[4:])
	text = in[datagramFrame:]
	return text, sequence == 0 && datagrams == 1 && bytes.IndexByte(text, '\n') == len(text)-1
}

// mayBeAsked tells whether a line asks for something that datagrams may ask for. Keys that the reply cannot have room for are not even looked up:
// else a few forged bytes could use up many ids.
func mayBeAsked(text []byte, room int) bool {
	verb, rest, _ := cut(trim(text))
	switch string(lower(make([]byte, 0, longestVerb), verb)) {
	case "get", "gets", "gat", "gats":
		return countKeys(rest)*leastValue <= room
	case "mg", "mn", "version":
		return true
	}
	return false
}
