package file

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
	"github.com/katsubushi/katsubushi/v3/test/script"
)

func sample() record {
	d := counter.Definition{Name: "shop.orders:{eu}", Start: 1000, Step: 2, Offset: 1, Max: counter.MaxValue, Batch: 500,
		Strict: true}
	return record{
		Record:     counter.Record{Definition: d, Next: 10001, Floor: 9000, Token: "K5XQ3ZJ7T2M4WB6LHD3YNC5EFA"},
		Generation: 42, Machine: "4be5a3c2e0b94d60a3f6e1d2c3b4a596",
	}
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

// TestRecords: how records are written, which nobody could go on from, and what their files are called.
func TestRecords(t *testing.T) {
	script.Run(t, "testdata/records.script", func(t *testing.T, play func(script.Do)) {
		calls := script.Calls{
			// record next=7 ... [retired] [free] [timed]: what is written of the golden record with these changes, and whether
			// that is read back
			"record": func(changes ...string) (string, error) {
				r := sample()
				change(&r, changes)
				_, unread := decode(r.encode())
				if err := r.check(); err != nil || unread != nil {
					return "", errors.Join(err, unread)
				}
				if got, err := decode(r.encode()); got != r {
					t.Errorf("%+v, %v; want %+v", got, err, r)
				}
				head, _, _ := strings.Cut(string(r.encode()), "\n")
				return head + ", " + strings.ReplaceAll(strings.TrimSpace(r.body()), "\n", ", "), nil
			},
			"file": func(quoted string) (string, error) {
				name, err := strconv.Unquote(quoted)
				if back, ok := nameOf(fileName(name)); back != name || !ok {
					t.Errorf("%s is of %q", quoted, back)
				}
				return fileName(name), err
			},
			"name": func(file string) (string, bool) { return nameOf(file) },
			// machine HERE WROTE: why a record is refused
			"machine": func(here, wrote string) string {
				r := sample()
				r.Machine = wrote
				return (&Config{Machine: here}).foreign(&r)
			},
		}
		play(func(words []string) string { return calls.Do(t, words) })
	})
}

// change changes a record.
func change(r *record, changes []string) {
	for _, word := range changes {
		field, value, _ := strings.Cut(word, "=")
		n, _ := strconv.ParseUint(value, 10, 64)
		if text := map[string]*string{"name": &r.Name, "machine": &r.Machine, "term": &r.Term}[field]; text != nil {
			*text = value
		}
		if number := map[string]*uint64{"next": &r.Next, "floor": &r.Floor, "step": &r.Step, "offset": &r.Offset,
			"max": &r.Max, "begin": &r.Begin}[field]; number != nil {
			*number = n
		}
		switch field {
		case "retired":
			r.Retired = true
		case "free":
			r.Strict = false
		case "timed":
			r.Definition = counter.Definition{Name: "tx", Start: 1, Step: 1, Offset: 1, Max: counter.MaxValue, Strict: true,
				Time: counter.Time{Layout: "katsubushi", Node: 1023, Ahead: 2500 * time.Millisecond}}
			r.Written = 1_790_000_000_000
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
