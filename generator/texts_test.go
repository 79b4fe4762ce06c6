package generator

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/katsubushi/katsubushi/v3/id"
)

var textKinds = []TextKind{UUID7, ULID, ObjectID}

// textLayouts are all layouts, and one with much and one with little room behind worker id and sequence.
func textLayouts() []Layout {
	return append(Layouts(),
		Layout{Name: "wide", Epoch: 0, Unit: 1, TimeBits: 10, WorkerBits: 30, SequenceBits: 24},
		Layout{Name: "narrow", Epoch: 946684800000, Unit: 60000, TimeBits: 40, WorkerBits: 0, SequenceBits: 1},
		Layout{Name: "seconds", Epoch: -5000, Unit: 1000, TimeBits: 32, WorkerBits: 12, SequenceBits: 20, WorkerLow: true},
		front(),
	)
}

func mustText(t testing.TB, k TextKind, l Layout) *TextLayout {
	t.Helper()
	text, err := NewTextLayout(k, l)
	if err != nil {
		t.Fatal(err)
	}
	return &text
}

func TestGoldenTexts(t *testing.T) {
	// 2026-11-22T01:02:03.456Z, worker 0x2a5, sequence 0x3c1
	at := time.Date(2026, 11, 22, 1, 2, 3, 456e6, time.UTC)
	const random = 0xfedcba9876543210
	for _, c := range []struct {
		kind   TextKind
		layout Layout
		want   string
	}{
		// 01a200c644c0 ms, sequence 3c1, then worker id 1010100101 behind the variant's 10
		{UUID7, Katsubushi(), "01a200c6-44c0-73c1-aa5f-edcba9876610"},
		{UUID7, Sonyflake(), "01a200c6-44ba-7c10-8a97-fb72ea61da10"},
		{ULID, Katsubushi(), "01M80CCH607GD9FYVJX9GXJCGG"},
		{ULID, JS53(), "01M80CCH60G9FYVJX9GXJM6CGG"},
		{ObjectID, Katsubushi(), "6b023f0b720f06a5fedcba98"},
		{ObjectID, Instagram(), "6b023f0b723c1152ff6e5d4c"},
	} {
		p := Parts{Time: at, Worker: 0x2a5 & c.layout.MaxWorker(), Sequence: 0x3c1 & c.layout.MaxSequence()}
		number, err := c.layout.Compose(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(mustText(t, c.kind, c.layout).Make(number, random).Append(nil, 0)); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.kind, c.layout, got, c.want)
		}
	}
	if got := string(UUID4(0x0123456789abcdef, 0xfedcba9876543210).
		Append(nil, 0)); got != "01234567-89ab-4def-bedc-ba9876543210" {
		t.Errorf("uuid4: %s", got)
	}
}

// inPlace is the value that the drawing at TextLayout shows, put together from its fields in the
// plainest way.
func inPlace(k TextKind, l Layout, p Parts, random uint64) string {
	var fields strings.Builder // the bits of sequence, worker id and random bits
	fmt.Fprintf(&fields, "%0*b", l.SequenceBits, p.Sequence)
	if l.WorkerBits > 0 {
		fmt.Fprintf(&fields, "%0*b", l.WorkerBits, p.Worker)
	}
	room := map[TextKind]int{UUID7: 74, ULID: 80, ObjectID: 54}[k]
	bits := fmt.Sprintf("%064b", random)
	upper := min(64, room) - fields.Len() // as many of its upper bits as fit into 64 bits behind the time, then its lowest
	rest := fields.String() + bits[:upper] + bits[64-max(0, room-64):]
	ms := p.Time.UnixMilli()
	switch k {
	case UUID7:
		rest = fmt.Sprintf("%048b", ms) + "0111" + rest[:12] + "10" + rest[12:]
	case ULID:
		rest = fmt.Sprintf("%048b", ms) + rest
	default:
		rest = fmt.Sprintf("%032b%010b", ms/1000, ms%1000) + rest
	}
	v, _ := new(big.Int).SetString(rest, 2)
	return fmt.Sprintf("%0*x", len(rest)/4, v)
}

func hexOf(r id.Run) string {
	if r.Form() == id.ObjectID {
		return fmt.Sprintf("%08x%016x", r.High, r.First)
	}
	return fmt.Sprintf("%016x%016x", r.High, r.First)
}

func TestEachFieldIsInItsPlace(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, l := range textLayouts() {
		for _, k := range textKinds {
			text := mustText(t, k, l)
			for i := range 3000 {
				p := Parts{Worker: rnd.Uint64() & l.MaxWorker(), Sequence: rnd.Uint64() & l.MaxSequence()}
				tick := rnd.Uint64N(min(1<<l.TimeBits, uint64((1<<42-l.Epoch)/l.Unit))) // until 2109
				if i == 0 {
					tick, p.Worker, p.Sequence = 0, l.MaxWorker(), l.MaxSequence()
				}
				ms := l.Epoch + int64(tick)*l.Unit
				p.Time = time.UnixMilli(ms).UTC()
				number, err := l.Compose(p)
				if err != nil {
					t.Fatal(err)
				}
				if fits := ms >= 0 && (k != ObjectID || ms/1000 < 1<<32); text.Fits(number) != fits ||
					(text.CheckTime(ms) == nil) != fits {
					t.Fatalf("%s of %s at %v: fits %v, %v", k, l, p.Time, text.Fits(number), text.CheckTime(ms))
				} else if !fits {
					continue
				}
				random := rnd.Uint64()
				r := text.Make(number, random)
				if want := inPlace(k, l, p, random); hexOf(r) != want || r.Form() != k.Form() {
					t.Fatalf("%s of %s, %+v: %s of form %d, want %s", k, l, p, hexOf(r), r.Form(), want)
				}
				again, err := id.Parse(string(r.Append(nil, 0)))
				if got := text.Decompose(again.High, again.First); err != nil || got != p {
					t.Fatalf("%s of %s: %+v, %v, want %+v", k, l, got, err, p)
				}
			}
		}
	}
}

// Programs that others wrote read the version, the variant, and the time: to 1 ms, of an ObjectID
// to 1 s.
func TestOthersReadTheTexts(t *testing.T) {
	for _, l := range Layouts() {
		for i, at := range []int64{l.Epoch + 1, 1732060800123, 1_800_000_000_999, l.Epoch + l.Unit<<(l.TimeBits-2)} {
			s := mustNew(t, Options{Layout: l, Worker: uint64(i), Lo: at, Hi: math.MaxInt64})
			for random := range uint64(50) {
				number := mustTake(t, s, at, at+1000, 1).First
				for _, k := range textKinds {
					if ms := judged(t, k, mustText(t, k, l).Make(number, random*0x0987654321fedcba)); ms < at-l.Unit+1 ||
						ms > at+l.Unit {
						t.Fatalf("%s of %s: issued at %d, read as %d", k, l, at, ms)
					}
				}
			}
		}
	}
	for i := range uint64(1000) {
		u, err := uuid.Parse(string(UUID4(i*0x123456789abcdef1, ^i*0x987654321).Append(nil, 0)))
		if err != nil || u.Version() != 4 || u.Variant() != uuid.RFC4122 {
			t.Fatalf("%v: %v, version %d, variant %v", u, err, u.Version(), u.Variant())
		}
	}
}

// judged is the time that somebody else's program reads, Unix ms; of an ObjectID, whose time has
// seconds, the ms are ours.
func judged(t *testing.T, k TextKind, r id.Run) int64 {
	t.Helper()
	text := string(r.Append(nil, 0))
	switch k {
	case UUID7:
		u, err := uuid.Parse(text)
		if err != nil || u.Version() != 7 || u.Variant() != uuid.RFC4122 || u.String() != text {
			t.Fatalf("%s: %v, %v, version %d, variant %v", text, u, err, u.Version(), u.Variant())
		}
		sec, ns := u.Time().UnixTime()
		return sec*1000 + ns/1e6
	case ULID:
		u, err := ulid.ParseStrict(text)
		if err != nil || u.String() != text || text[0] > '7' {
			t.Fatalf("%s: %v, %v", text, u, err)
		}
		return int64(u.Time())
	default:
		o, err := bson.ObjectIDFromHex(text)
		if err != nil || o.Hex() != text {
			t.Fatalf("%s: %v, %v", text, o, err)
		}
		return o.Timestamp().UnixMilli() + int64(r.First>>54)
	}
}

// However many are taken at once, whatever the clock does, and whichever random bits there are: the
// texts of a Snowflake rise.
func TestTextsAreInTheOrderOfIssue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, l := range Layouts() {
		for _, random := range []bool{false, true} {
			now := l.Epoch + 1<<38
			s := mustNew(t, Options{Layout: l, Worker: 3, Lo: now, Hi: math.MaxInt64, RandomStart: random})
			var last [3][]byte
			for range 20_000 {
				now += rnd.Int64N(5) - 1
				r, err := s.Take(now, now+1000, 1+rnd.IntN(5))
				if err != nil {
					continue
				}
				for i := range r.N {
					for j, k := range textKinds {
						text := mustText(t, k, l).Make(r.First+uint64(i)*r.Stride, rnd.Uint64()).Append(nil, 0)
						if bytes.Compare(last[j], text) >= 0 {
							t.Fatalf("%s of %s: %s after %s", k, l, text, last[j])
						}
						last[j] = text
					}
				}
			}
		}
	}
}

func TestRandomBits(t *testing.T) {
	for _, l := range Layouts() {
		for k, want := range map[TextKind]int{UUID7: 50, ULID: 50, ObjectID: 30} {
			text := mustText(t, k, l)
			var changed, zero big.Int
			a := text.Make(1<<40, 0)
			for bit := range 64 {
				b := text.Make(1<<40, 1<<bit)
				v := new(big.Int).SetUint64(a.High ^ b.High)
				changed.Or(&changed, v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(a.First^b.First)))
			}
			n := 0
			for i := range changed.BitLen() {
				n += int(changed.Bit(i))
			}
			if n < want || n < text.RandomBits() || changed.Cmp(&zero) == 0 {
				t.Errorf("%s of %s has %d random bits, says %d, want %d", k, l, n, text.RandomBits(), want)
			}
		}
	}
}

func TestTooManyBitsForAText(t *testing.T) {
	l := Layout{Epoch: 0, Unit: 1, TimeBits: 9, WorkerBits: 30, SequenceBits: 25}
	_, err := NewTextLayout(ObjectID, l)
	if want := "generator: 30 worker + 25 sequence bits: objectid has 54 for both"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	for _, k := range []TextKind{UUID7, ULID} {
		mustText(t, k, l)
	}
}

func TestTextTimesThatDoNotFit(t *testing.T) {
	text := mustText(t, ObjectID, Sonyflake())
	if err := text.CheckTime(1000<<32 - 1); err != nil {
		t.Error(err)
	}
	want := "generator: 2106-02-07T06:28:16Z does not fit into objectid, whose time goes from 1970-01-01T00:00:00Z to " +
		"2106-02-07T06:28:15Z"
	if err := text.CheckTime(1000 << 32); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if text.CheckTime(-1) == nil {
		t.Error("a time before 1970 fits")
	}
}

func BenchmarkMakeText(b *testing.B) {
	for _, k := range textKinds {
		b.Run(k.String(), func(b *testing.B) {
			text := mustText(b, k, Katsubushi())
			var sum uint64
			for i := range b.N {
				sum += text.Make(uint64(i)<<20, uint64(i)).First
			}
			_ = sum
		})
	}
}
