package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// An exchange is a dialect with a good answer to some requests.
type exchange struct {
	name    string
	dialect func(idCheck) dialect
	answers int
	stream  string
}

func exchanges() []exchange {
	value := func(key, id string) string { return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\n", key, len(id), id) }
	var multi strings.Builder
	for i, k := range keyNames("id", 5) {
		multi.WriteString(value(k, fmt.Sprint(1234567890123456000+i)))
	}
	return []exchange{
		{"text", func(c idCheck) dialect {
			return newText("id", 1, c)
		}, 2, value("id", "1234567890123456789") + "END\r\n" + value("id", "1234567890123456790") + "END\r\n"},
		{"text short ids", func(c idCheck) dialect {
			return newText("id", 1, c)
		}, 3, value("id", "7") + "END\r\n" + value("id", "0") + "END\r\n" + value("id", "18446744073709551615") + "END\r\n"},
		{"text multi", func(c idCheck) dialect { return newText("id", 5, c) }, 1, multi.String() + "END\r\n"},
		{"meta", func(c idCheck) dialect { return newMeta(c) }, 2, "VA 19\r\n1234567890123456789\r\nVA 2\r\n42\r\n"},
		{"redis", func(c idCheck) dialect { return respIncr("id", c) }, 3, ":1\r\n:22\r\n:18446744073709551615\r\n"},
		{"resp get", func(c idCheck) dialect {
			return respGet("id", c)
		}, 3, "$19\r\n1234567890123456789\r\n$2\r\n42\r\n$2\r\n43\r\n"},
		{"sequence", func(c idCheck) dialect {
			return newText("orders", 2, c)
		}, 2, value("orders", "9") + value("orders", "10") + "END\r\n" + value("orders", "11") + value("orders", "12") +
			"END\r\n"},
		{"ulid", func(c idCheck) dialect {
			return newText("ulid", 1, c)
		}, 2, value("ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV") + "END\r\n" + value("ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAW") +
			"END\r\n"},
		{"binary", func(c idCheck) dialect {
			return binaryDialect{c}
		}, 2, binaryHit(1, "1234567890123456789") + binaryHit(2, "3")},
	}
}

// binaryHit is a GET response.
func binaryHit(opaque uint32, id string) string {
	h := make([]byte, binHeader, binHeader+4+len(id))
	h[0], h[4], h[11] = 0x81, 4, byte(4+len(id))
	binary.BigEndian.PutUint32(h[binOpaque:], opaque)
	copy(h[16:], "casvalue")
	return string(h) + "\x00\x00\x00\x00" + id
}

// feed gives a dialect a stream in pieces, as the loops do, and returns how many answers it saw and
// what it left.
func feed(d dialect, pieces []string) (answers int, rest string, err error) {
	var p progress
	for _, piece := range pieces {
		in := rest + piece
		used, n, err := d.check(&p, []byte(in))
		if answers += n; err != nil {
			return answers, in[used:], err
		}
		rest = in[used:]
	}
	if p.item > 0 {
		rest = "(between items)" + rest
	}
	return answers, rest, nil
}

func TestGoodAnswersHoweverCut(t *testing.T) {
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			cut := func(pieces ...string) {
				t.Helper()
				for _, ids := range []idCheck{{}, {seen: &unique.Set{}}} {
					if n, rest, err := feed(x.dialect(ids), pieces); err != nil || n != x.answers || rest != "" {
						t.Fatalf("%q: %d answers of %d, left %q, error %v", pieces, n, x.answers, rest, err)
					}
				}
			}
			cut(x.stream)
			cut(strings.Split(x.stream, "")...)
			for i := range x.stream {
				cut(x.stream[:i], x.stream[i:])
			}
		})
	}
}

// Every byte of an answer is looked at, but for the cas of a binary one, which may be anything.
func TestEveryWrongByteIsSeen(t *testing.T) {
	for _, x := range exchanges() {
		for i := range x.stream {
			if cas := strings.LastIndex(x.stream[:min(i+len("casvalue"), len(x.stream))], "casvalue"); cas >= 0 &&
				i < cas+len("casvalue") {
				continue
			}
			wrong := x.stream[:i] + "#" + x.stream[i+1:]
			if n, rest, err := feed(x.dialect(idCheck{}), []string{wrong}); err == nil && n == x.answers && rest == "" {
				t.Errorf("%s: byte %d of %q was not looked at", x.name, i, wrong)
			}
		}
	}
}

func TestWrongAnswersAreShown(t *testing.T) {
	text := func(c idCheck) dialect { return newText("id", 1, c) }
	for _, tc := range []struct {
		name    string
		dialect func(idCheck) dialect
		in      string
		want    string
	}{
		{"miss", text, "END\r\n", `want "VALUE id 0 ", got "END\r\n"`},
		{"refusal", text, "SERVER_ERROR no worker id yet\r\n", `got "SERVER_ERROR no worker id yet\r\n"`},
		{"other key", text, "VALUE ie 0 1\r\n", "got"},
		{"letter in a long id", text, "VALUE id 0 19\r\n12345678901234567x9\r\nEND\r\n", "want 19 digits"},
		{"colon in a long id", text, "VALUE id 0 19\r\n1:34567890123456789\r\nEND\r\n", "want 19 digits"},
		{"slash in a long id", text, "VALUE id 0 19\r\n1/34567890123456789\r\nEND\r\n", "want 19 digits"},
		{"leading zero", text, "VALUE id 0 2\r\n01\r\n", "want a decimal integer"},
		{"length too long", text, "VALUE id 0 21\r\n", "a length of 1 to 20"},
		{"length too short", text, "VALUE id 0 1\r\n12\r\n", "end of the line"},
		{"length missing", text, "VALUE id 0 \r\n", "a length of 1 to 20"},
		{"two answers' worth of END", text, "VALUE id 0 1\r\n1\r\nEND\r\nEND\r\n", "VALUE"},
		{"text of another length", func(c idCheck) dialect {
			return newText("uuid7", 1, c)
		}, "VALUE uuid7 0 35\r\n", "a length of 36 to 36"},
		{"letter in a uuid", func(c idCheck) dialect {
			return newText("uuid7", 1, c)
		}, "VALUE uuid7 0 36\r\n0198c0de-0000-7000-8000-00000000000_\r\nEND\r\n", "want letters"},
		{"redis nil", func(c idCheck) dialect { return respGet("id", c) }, "$-1\r\n", "a length of 1 to 20"},
		{"meta miss", func(c idCheck) dialect { return newMeta(c) }, "EN\r\n", "VA "},
		{"redis error", func(c idCheck) dialect { return respIncr("id", c) }, "-ERR no\r\n", `got "-ERR no\r\n"`},
		{"redis endless", func(c idCheck) dialect { return respIncr("id", c) }, ":" + strings.Repeat("1", 40), "an integer"},
		{"binary status", func(c idCheck) dialect {
			return binaryDialect{c}
		}, strings.Replace(binaryHit(1, "1"), "\x00\x00\x04\x00\x00\x00", "\x00\x00\x04\x00\x00\x86", 1), "GET response"},
		{"binary opaque", func(c idCheck) dialect { return binaryDialect{c} }, binaryHit(2, "1"), "opaque 0x1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := feed(tc.dialect(idCheck{}), []string{tc.in})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
}

func TestDuplicateIDIsSeen(t *testing.T) {
	for _, x := range exchanges() {
		once := x.stream
		if x.name == "binary" {
			once = binaryHit(1, "5") + binaryHit(2, "5")
		}
		d := x.dialect(idCheck{seen: &unique.Set{}})
		_, _, err := feed(d, []string{once})
		if err == nil {
			_, _, err = feed(d, []string{once})
		}
		if err == nil || !strings.Contains(err.Error(), "duplicate id") {
			t.Errorf("%s: a duplicate was not noticed: %v", x.name, err)
		}
	}
}

func TestCheckingAllocatesNothing(t *testing.T) {
	for _, x := range exchanges() {
		d, in := x.dialect(idCheck{}), []byte(x.stream)
		if n := testing.AllocsPerRun(100, func() {
			var p progress
			if _, answers, err := d.check(&p, in); err != nil || answers != x.answers {
				t.Fatal(err)
			}
		}); n > 1 { // the progress escapes
			t.Errorf("%s: %v allocations", x.name, n)
		}
	}
}

func TestBinaryRequestsAreNumbered(t *testing.T) {
	d := binaryDialect{}
	batch := d.request(3)
	var p progress
	d.stamp(batch, &p)
	d.stamp(batch, &p)
	for i := range 3 {
		if got := binary.BigEndian.Uint32(batch[i*binRequest+binOpaque:]); got != uint32(4+i) {
			t.Errorf("request %d has opaque %d", i, got)
		}
	}
}

// FuzzCheck feeds any bytes at all: however they are cut, the verdict is the same, and what is left
// over stays short.
func FuzzCheck(f *testing.F) {
	for i, x := range exchanges() {
		f.Add(uint8(i), []byte(x.stream), uint64(1))
		f.Add(uint8(i), []byte(x.stream[:len(x.stream)-3]+"###"), uint64(2))
		f.Add(uint8(i), []byte("SERVER_ERROR out of ids\r\n"), uint64(3))
	}
	f.Fuzz(func(t *testing.T, which uint8, in []byte, seed uint64) {
		x := exchanges()[int(which)%len(exchanges())]
		rng := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for s := string(in); s != ""; {
			n := 1 + rng.IntN(len(s))
			pieces, s = append(pieces, s[:n]), s[n:]
		}
		n1, rest1, err1 := feed(x.dialect(idCheck{}), []string{string(in)})
		n2, rest2, err2 := feed(x.dialect(idCheck{}), pieces)
		if n1 != n2 || (err1 == nil) != (err2 == nil) || (err1 == nil && rest1 != rest2) {
			t.Fatalf("%s: whole: %d, %q, %v; cut as %q: %d, %q, %v", x.name, n1, rest1, err1, pieces, n2, rest2, err2)
		}
		if err1 == nil && len(rest1) > maxItem {
			t.Fatalf("%s: %d bytes left over", x.name, len(rest1))
		}
	})
}
