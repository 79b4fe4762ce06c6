package etcdtest

import "sync"

// Frames counts the frames of HTTP/2 that etcd sends on one connection. Let a redistest.Proxy rewrite its
// answers with Pass before the connection is made.
type Frames struct {
	mu   sync.Mutex
	rest []byte
	all  map[[2]byte]int // by type and flags
}

// Pass counts the frames in a piece of the answers, and returns the piece.
func (f *Frames) Pass(piece []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[[2]byte]int{}
	}
	for f.rest = append(f.rest, piece...); len(f.rest) >= 9; {
		size := 9 + int(f.rest[0])<<16 + int(f.rest[1])<<8 + int(f.rest[2])
		if len(f.rest) < size {
			break
		}
		f.all[[2]byte{f.rest[3], f.rest[4]}]++
		f.rest = f.rest[size:]
	}
	return piece
}

// Pongs returns how many pings of the client etcd has answered.
func (f *Frames) Pongs() int {
	const ping, ack = 6, 1
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[[2]byte{ping, ack}]
}

// Headers returns how often etcd began or ended an answer.
func (f *Frames) Headers() (n int) {
	const headers = 1
	f.mu.Lock()
	defer f.mu.Unlock()
	for frame, k := range f.all {
		if frame[0] == headers {
			n += k
		}
	}
	return n
}
