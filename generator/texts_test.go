package generator

import (
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
