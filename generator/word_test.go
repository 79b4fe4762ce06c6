package generator

import (
	"sync/atomic"
	"testing"
)

// What a word says to whoever finds it is what its generator would have said, whatever the layout;
// and it is one generator's.
func TestWordOfAnotherMemory(t *testing.T) {
	for _, l := range []Layout{Katsubushi(), Twitter(), Sonyflake(),
		{Epoch: 1420070400000, Unit: 1000, TimeBits: 31, WorkerBits: 8, SequenceBits: 6}} {
		// memory as it is made, as it is handed out, and as it was handed out by a release before
		for _, before := range []uint64{0, l.First(l.Epoch + 7001), sealed} {
			var word atomic.Uint64
			word.Store(before)
			o := Options{Layout: l, Worker: 1, Lo: l.Epoch + 7001, Hi: l.Epoch + 90_000, Word: &word}
			s, err := NewSnowflake(o)
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Issued(word.Load()); got < s.Position() || got >= s.Next() {
				t.Errorf("%v: unused: issued up to %d, where the window begins at %d", l, got, o.Lo)
			}
			for now := l.Epoch + 8000; now < l.Epoch+80_000; now += 777 {
				if _, err := s.Take(now, now+1000, 1+int(now%70)); err != nil {
					t.Fatal(err)
				}
				if got := l.Issued(word.Load()); got != s.Position() || got < now-l.Unit {
					t.Fatalf("%v at %d: the word says %d, the generator %d", l, now, got, s.Position())
				}
			}
			if last := s.Seal(); l.Issued(word.Load()) != last {
				t.Errorf("%v: sealed at %d, and the word says %d", l, last, l.Issued(word.Load()))
			}
			if _, err := NewSnowflake(o); err == nil {
				t.Errorf("%v: a second generator with the word of another", l)
			}
		}
	}
}
