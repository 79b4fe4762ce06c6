package grpcapi

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/http2"
)

// FuzzFrames: the headers of frames are found however the bytes are cut, as by another reader of HTTP/2.
func FuzzFrames(f *testing.F) {
	f.Add(uint64(1))
	f.Add(uint64(2))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		var b bytes.Buffer
		b.WriteString(http2.ClientPreface)
		w, want := http2.NewFramer(&b, nil), ""
		w.AllowIllegalWrites = true
		for range r.IntN(30) {
			kind, flags, stream, payload := http2.FrameType(r.IntN(12)), http2.Flags(r.IntN(256)), r.Uint32()&^(1<<31),
				make([]byte, r.IntN(40)*r.IntN(2)+r.IntN(20_000)*r.IntN(2)*r.IntN(2))
			w.WriteRawFrame(kind, flags, stream, payload)
			want += fmt.Sprintln(byte(kind), flags&1 != 0, stream, len(payload))
		}
		got, in := "", frames{skip: prefaceLen}
		for rest := b.Bytes(); len(rest) > 0; {
			n := min(1+r.IntN(1+r.IntN(1+r.IntN(5000))), len(rest))
			piece := rest[:n]
			rest = rest[n:]
			for more, ok := in.next(piece); ok; more, ok = in.next(more) {
				got += fmt.Sprintln(in.kind(), in.endStream(), in.stream(), in.skip)
			}
		}
		if got != want {
			t.Errorf("seed %d:\n%swant\n%s", seed, got, want)
		}
	})
}
