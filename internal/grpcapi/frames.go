package grpcapi

import "encoding/binary"

// Types and flags of HTTP/2's frames: RFC 9113, section 6.
const (
	frameData    = 0
	frameHeaders = 1
	frameReset   = 3

	flagEndStream = 1

	headerLen  = 9
	prefaceLen = 24 // what a client sends before its first frame
)

// frames finds the headers of HTTP/2's frames in one direction of a connection, however its bytes are
// cut. It looks at nothing else, so it needs no table of compressed header fields.
type frames struct {
	skip int             // bytes to pass over: the rest of a payload
	head [headerLen]byte // of the present frame
	have int             // bytes of it that have come
}

// next consumes bytes up to the end of the next frame's header. ok = false: all of b is consumed, and it
// has not come yet.
func (f *frames) next(b []byte) (rest []byte, ok bool) {
	if f.have == headerLen {
		f.have = 0
	}
	n := min(f.skip, len(b))
	f.skip -= n
	b = b[n:]
	n = copy(f.head[f.have:], b)
	f.have += n
	if f.have < headerLen {
		return nil, false
	}
	f.skip = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
	return b[n:], true
}

func (f *frames) kind() byte      { return f.head[3] }
func (f *frames) endStream() bool { return f.head[4]&flagEndStream != 0 }
func (f *frames) stream() uint32  { return binary.BigEndian.Uint32(f.head[5:]) &^ (1 << 31) }
