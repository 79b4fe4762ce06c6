package file

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

func sample() record {
	d := counter.Definition{Name: "shop.orders:{eu}", Start: 1000, Step: 2, Offset: 1, Max: counter.MaxValue, Batch: 500,
		Strict: true}
	return record{
		Record:     counter.Record{Definition: d, Next: 10001, Floor: 9000, Token: "K5XQ3ZJ7T2M4WB6LHD3YNC5EFA"},
		Generation: 42, Machine: "4be5a3c2e0b94d60a3f6e1d2c3b4a596",
	}
}

// timed makes a record one of timestamps.
func timed(r *record) {
	r.Definition = counter.Definition{Name: "tx", Start: 1, Step: 1, Offset: 1, Max: counter.MaxValue, Strict: true,
		Time: counter.Time{Layout: "katsubushi", Node: 1023, Ahead: 2500 * time.Millisecond}}
	r.Begin, r.Term, r.Written = 9001, "7Q2M4WB6LHD3YNC5EFAK5XQ3ZJT", 1_790_000_000_000
}

// The format is a promise to every later version: this file was written once.
func TestGoldenFile(t *testing.T) {
	const path = "testdata/golden.sequence"
	r := sample()
	got := append(r.encode(), r.encode()...)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("encoded as\n%s", bytes.TrimRight(got[:durable.CopySize], "\n"))
	}
	if r, damaged, err := recoverRecord(want); r != sample() || damaged != nil || err != nil {
		t.Errorf("%+v, %v, %v", r, damaged, err)
	}
}

func TestEveryStateIsReadBack(t *testing.T) {
	for _, change := range []func(*record){
		func(r *record) {},
		func(r *record) { r.Strict = false },
		func(r *record) { r.Retired = true },
		timed,
		func(r *record) {
			timed(r)
			r.Begin, r.Term, r.Machine = 0, "", ""
		},
		func(r *record) { r.Machine = "" },
		func(r *record) { r.Name = "-" },
		func(r *record) { r.Next = r.Max + r.Step }, // ended
		func(r *record) { r.Max, r.Step, r.Offset, r.Next = 2000, counter.MaxValue, 1500, 1500+counter.MaxValue },
	} {
		r := sample()
		change(&r)
		if got, err := decode(r.encode()); got != r || err != nil {
			t.Errorf("%+v, %v; want %+v", got, err, r)
		}
		// A daemon that does not know timestamps must leave their records alone, as those of a later version.
		if r.Timed() && !bytes.HasPrefix(r.encode(), []byte("katsubushi sequence timestamps-1\n")) {
			t.Errorf("%.100s", r.encode())
		}
	}
}

// Whole copies that nobody could go on from.
func TestImpossibleRecords(t *testing.T) {
	for _, change := range []func(*record){
		func(r *record) { r.Next++ },
		func(r *record) { r.Next = 1 },
		func(r *record) { r.Floor = r.Next + 1 },
		func(r *record) { r.Step = 0 },
		func(r *record) { r.Offset = 3 },
		func(r *record) { r.Max = 1 << 63 },
		func(r *record) { r.Name = strings.Repeat("x", 65) },
		func(r *record) { r.Machine = "-" },
	} {
		r := sample()
		change(&r)
		if r.check() == nil {
			t.Errorf("%+v would be written", r)
		}
		if got, err := decode(r.encode()); err == nil && r.Machine != "-" {
			t.Errorf("%+v was read as %+v", r, got)
		}
	}
}

func TestFileNames(t *testing.T) {
	for name, want := range map[string]string{
		"orders": "orders.sequence", "shop.orders:{eu}-1_A": "shop.orders%3A{eu}-1_A.sequence", ".": "%2E.sequence",
		"..":   "%2E..sequence",
		"../x": "%2E.%2Fx.sequence", "a\x00é": "a%00%C3%A9.sequence", "%": "%25.sequence",
	} {
		got := fileName(name)
		if got != want {
			t.Errorf("%q has the file %s, want %s", name, got, want)
		}
		if back, ok := nameOf(got); back != name || !ok {
			t.Errorf("%s is of %q, %v; want %q", got, back, ok, name)
		}
	}
	for _, file := range []string{".sequence", "orders", "orders.lock", "orders.sequence.tmp", "a%3.sequence",
		"a%.sequence", "a%3a.sequence", "a%61.sequence", "a b.sequence", ".x.sequence"} {
		if name, ok := nameOf(file); ok {
			t.Errorf("%s is taken for the file of %q", file, name)
		}
	}
}

// FuzzRecover: whatever a file holds, nothing breaks, and what is accepted is what we would write.
func FuzzRecover(f *testing.F) {
	r := sample()
	f.Add(append(r.encode(), r.encode()...), false)
	f.Add([]byte("katsubushi sequence 1\n"+strings.Replace(r.body(), "\nnext 10001\n", "\nnext +10001\n", 1)), true)
	f.Add([]byte("katsubushi sequence 1\n"+strings.Replace(r.body(), "strict", "strictly", 1)), true)
	f.Add([]byte("katsubushi sequence 1\n"+r.body()+"more 1\n"), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal && len(b) < durable.CopySize-16 { // make the checksum right, so that the parser is reached
			b = fmt.Appendf(bytes.Clone(b), "crc32c %08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
			b = append(b, bytes.Repeat([]byte("\n"), durable.CopySize-len(b))...)
		}
		if r, err := decode(b); err == nil && (!bytes.Equal(r.encode(), b) || r.check() != nil) {
			t.Errorf("%q was read as %+v", bytes.TrimRight(b, "\n"), r)
		}
		recoverRecord(b)
	})
}

// Where one of the two machines is not known, as in many containers, nothing is compared.
func TestUnknownMachines(t *testing.T) {
	for _, c := range []struct {
		here, wrote string
		refused     bool
	}{{"a", "a", false}, {"a", "b", true}, {"", "b", false}, {"a", "", false}, {"", "", false}} {
		r := sample()
		r.Machine = c.wrote
		if text := (&Config{Machine: c.here}).foreign(&r); (text != "") != c.refused {
			t.Errorf("written on %q, read on %q: %s", c.wrote, c.here, text)
		}
	}
}
