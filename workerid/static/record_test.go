package static

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/steps"
)

func sample() record {
	return record{
		Generation: 42, Worker: 7, HighWater: 1732060802000, Reserve: 2000,
		Fingerprint: "epoch=1420070400000;unit=1ms;bits=41/10/12;order=time,worker,sequence",
		Machine:     "4be5a3c2e0b94d60a3f6e1d2c3b4a596", Boot: "0f0e4cda-6b24-4a0e-a7b2-2a3e1d0c9b8a", Offset: 1731990000123,
	}
}

// The format is a promise to every later version: this file was written once.
func TestGoldenFile(t *testing.T) {
	want, err := os.ReadFile("testdata/worker-7.state")
	if err != nil {
		t.Fatal(err)
	}
	r := sample()
	if got := r.encode(r.encode(nil)); !bytes.Equal(got, want) {
		t.Errorf("encoded as\n%s", bytes.TrimRight(got[:copySize], "\n"))
	}
	got, damaged, err := recoverRecord(want)
	if got != sample() || damaged != nil || err != nil {
		t.Errorf("%+v, %v, %v", got, damaged, err)
	}
}

// And so is the file of a shared mark.
func TestGoldenSharedMark(t *testing.T) {
	const series = "K5XQ3ZJ7T2M4WB6LHD3YNC5EFA"
	text := "katsubushi shared 1\ngeneration 42\nseries K5XQ3ZJ7T2M4WB6LHD3YNC5EFA\nmark 1732060802000\ncrc32c 6cde28d7"
	want := []byte(text + strings.Repeat("\n", copySize-len(text)))
	if got := sharedFormat.Append(nil, sharedBody(42, series, 1732060802000)); !bytes.Equal(got, want) {
		t.Errorf("encoded as\n%s", bytes.TrimRight(got, "\n"))
	}
	mark, damaged, err := recoverShared(append(want, want...), series)
	if mark != 1732060802000 || damaged != nil || err != nil {
		t.Error(mark, damaged, err)
	}
}

// TestRecords: what is written of a run, which releases before take for the id of another boot, and which values of
// lines are believed. That was written down when a Sscanf read them, which stopped at any white space.
func TestRecords(t *testing.T) {
	steps.Run(t, "testdata/records.txt", func(t *testing.T) steps.Calls {
		return steps.Calls{
			// run BOOT NONCE LOCK PAGE [forgets] [stopped]: the line of it
			"run": func(boot, nonce, lock, page string, words ...string) (string, error) {
				r := sample()
				r.Boot, r.Run = boot, run{nonce, lock, page, slices.Contains(words, forgets), slices.Contains(words, stopped)}
				b := r.encode(nil)
				if got, err := decode(b); got != r || err != nil {
					t.Errorf("it is read as %+v, %v", got, err)
				}
				_, line, _ := strings.Cut(string(b), "\nboot ")
				line, _, _ = strings.Cut(line, "\n")
				return line, r.check()
			},
			// values NAME VALUE ...: which of them are believed, each in a line of that name; they are quoted as in Go
			"values": func(name string, values ...string) (believed string) {
				lines := sample()
				head, rest, _ := strings.Cut("katsubushi state 1\n"+lines.body(), "\n"+name+" ")
				_, tail, _ := strings.Cut(rest, "\n")
				for _, quoted := range values {
					value, err := strconv.Unquote(quoted)
					if err != nil {
						t.Fatal(quoted, err)
					}
					b := sealed(head + "\n" + name + " " + value + "\n" + tail)
					r, err := decode(b)
					if err == nil {
						believed += quoted + " "
					}
					if err == nil && !bytes.Equal(r.encode(nil), b) {
						t.Errorf("%s is read as %+v", quoted, r)
					}
				}
				return believed
			},
		}
	})
}

func TestEmptyTexts(t *testing.T) {
	r := record{Worker: 1, HighWater: -5}
	got, err := decode(r.encode(nil))
	if got != r || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// sealed is a copy with the right checksum.
func sealed(text string) []byte {
	b := fmt.Appendf([]byte(text), "crc32c %08x", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
	return append(b, bytes.Repeat([]byte("\n"), copySize-len(b))...)
}

func TestRecordCheck(t *testing.T) {
	for _, s := range []string{"with space", "line\nfeed", "-", "ünicode", strings.Repeat("x", maxText+1)} {
		if (&record{Fingerprint: s}).check() == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	r := record{Fingerprint: strings.Repeat("x", maxText), Machine: strings.Repeat("y", maxText),
		Boot: strings.Repeat("z", maxText)}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	if got, err := decode(r.encode(nil)); got != r || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzRecover: whatever a file holds, nothing breaks, and what is accepted is what we would write.
func FuzzRecover(f *testing.F) {
	r := sample()
	f.Add(r.encode(r.encode(nil)), false)
	f.Add([]byte("katsubushi state 1\ncrc32c"), true)
	f.Add([]byte("katsubushi state 1\ngeneration 1\nworker 1\nmark 1\nreserve 1\nfingerprint -\nmachine -\nboot "+
		"-\noffset 0\n"), true)
	f.Add([]byte("katsubushi state 1\ngeneration +1\nworker 1\nmark 1\nreserve 1\nfingerprint -\nmachine -\nboot "+
		"-\noffset 00\n"), true)
	f.Add([]byte("katsubushi state 1\ngeneration 1\nworker 1\nmark 1\nreserve 1\nfingerprint -\nmachine -\nboot "+
		"b;n;l;p;forgotten\noffset 0\n"), true)
	f.Add(append(bytes.Repeat([]byte("katsubushi state "), 256), "\ncrc32c "...)[:copySize], false)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) < copySize-16 { // make the checksum right, so that the parser is reached
			b = sealed(string(b))
		}
		if r, err := decode(b); err == nil && !bytes.Equal(r.encode(nil), b) {
			t.Errorf("%q was read as %+v", bytes.TrimRight(b, "\n"), r)
		}
		recoverRecord(b)
	})
}

// FuzzRecoverShared: the same of the file of a shared mark.
func FuzzRecoverShared(f *testing.F) {
	f.Add("katsubushi shared 1\ngeneration 1\nseries S\nmark 1\n", "S")
	f.Add("katsubushi shared 1\ngeneration 01\nseries S\nmark +1\n", "S")
	f.Add("katsubushi shared 1\nmark 1\nseries generation 2\n", "generation 2")
	f.Fuzz(func(t *testing.T, text, series string) {
		if len(text) > copySize-16 {
			return
		}
		b := sealed(text)
		mark, damaged, err := recoverShared(append(b, b...), series)
		if err == nil && (len(damaged) > 0 || !bytes.Contains(b, fmt.Appendf(nil, "\nseries %s\nmark %d\n", series, mark))) {
			t.Errorf("%q was read as %d, %q", text, mark, damaged)
		}
	})
}
