package file

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
	"github.com/katsubushi/katsubushi/v3/internal/durable"
)

// A record is what the file of a sequence holds. One copy of it is:
//
//	katsubushi sequence 1
//	generation 42
//	name orders
//	start 1
//	step 2
//	offset 1
//	max 9223372036854775807
//	batch 0
//	order free
//	next 10001
//	floor 0
//	state active
//	token K5XQ3ZJ7T2M4WB6LHD3YNC5EFA
//	machine 4be5a3c2e0b94d60a3f6e1d2c3b4a596
//	crc32c 1a2b3c4d
//
// Package durable says what a checksum covers. Numbers are decimal and written in one way only. An
// unknown machine is "-". A record of timestamps has the version timestamps-1 and these lines more, behind the machine:
//
//	layout katsubushi
//	node 1023
//	ahead_ms 3000
//	term_start 1567891234567890
//	term 7Q2M4WB6LHD3YNC5EFAK5XQ3ZJT
//	written_ms 1790000000000
type record struct {
	counter.Record
	Generation uint64 // grows with each write: of two whole copies the one with the larger counts
	Machine    string // identity of the machine that wrote it last, see durable.MachineID
	Written    int64  // of timestamps: when that was, Unix ms
}

var (
	format      = durable.Format{Kind: "sequence", Version: "1"}
	timedFormat = durable.Format{Kind: "sequence", Version: "timestamps-1"}
)

const fields = "generation %d\nname %s\nstart %d\nstep %d\noffset %d\nmax %d\nbatch %d\norder %s\nnext %d\nfloor " +
	"%d\nstate %s\ntoken %s\nmachine %s\n"

const timedFields = "layout %s\nnode %d\nahead_ms %d\nterm_start %d\nterm %s\nwritten_ms %d\n"

func (r *record) body() string {
	order, state, machine := "free", "active", r.Machine
	if r.Strict {
		order = "strict"
	}
	if r.Retired {
		state = "retired"
	}
	if machine == "" {
		machine = none
	}
	return fmt.Sprintf(fields, r.Generation, r.Name, r.Start, r.Step, r.Offset, r.Max, r.Batch, order, r.Next, r.Floor,
		state, r.Token, machine) + r.timedBody()
}

// timedBody returns the lines that only timestamps have.
func (r *record) timedBody() string {
	if !r.Timed() {
		return ""
	}
	t := r.Time
	return fmt.Sprintf(timedFields, t.Layout, t.Node, t.Ahead.Milliseconds(), r.Begin, cmp.Or(r.Term, none), r.Written)
}

// none stands for an empty text.
const none = "-"

func (r *record) format() durable.Format {
	if r.Timed() {
		return timedFormat
	}
	return format
}

// encode returns one copy.
func (r *record) encode() []byte { return r.format().Append(nil, r.body()) }

// decode reads one copy. It accepts exactly what encode writes, of a correct definition.
func decode(b []byte) (r record, err error) {
	text, err := format.Body(b)
	timed := errors.Is(err, durable.ErrVersion)
	if timed {
		text, err = timedFormat.Body(b)
	}
	if err != nil {
		return record{}, err
	}
	var order, state string
	if _, err := fmt.Sscanf(text, fields, &r.Generation, &r.Name, &r.Start, &r.Step, &r.Offset, &r.Max, &r.Batch, &order,
		&r.Next, &r.Floor, &state, &r.Token, &r.Machine); err != nil {
		return record{}, err
	}
	r.Strict, r.Retired = order == "strict", state == "retired"
	if r.Machine == none {
		r.Machine = ""
	}
	if _, lines, _ := strings.Cut(text, "\nmachine "); timed {
		_, lines, _ = strings.Cut(lines, "\n")
		if err := r.decodeTimed(lines); err != nil {
			return record{}, err
		}
	}
	if err := r.format().Same(b, r.body()); err != nil {
		return record{}, err
	}
	if err := r.check(); err != nil {
		return record{}, err
	}
	return r, nil
}

// decodeTimed reads what timedBody has written.
func (r *record) decodeTimed(lines string) error {
	t, ahead := &r.Time, int64(0)
	if _, err := fmt.Sscanf(lines, timedFields, &t.Layout, &t.Node, &ahead, &r.Begin, &r.Term, &r.Written); err != nil {
		return err
	}
	if t.Ahead = time.Duration(ahead) * time.Millisecond; r.Term == none {
		r.Term = ""
	}
	return nil
}

// check says why the record could not be read back, or used.
func (r *record) check() error {
	texts := map[string]string{"name": r.Name, "token": r.Token, "machine": r.Machine, "layout": r.Time.Layout,
		"term": r.Term}
	for what, s := range texts {
		if len(s) > 64 || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
			return fmt.Errorf("%s %q: at most 64 printable characters without spaces allowed", what, s)
		}
	}
	if r.Machine == none {
		return errors.New("machine \"-\": not possible")
	}
	return r.Record.Check()
}

// recoverRecord finds the record of a whole file, see durable.Recover.
func recoverRecord(b []byte) (record, []string, error) {
	return durable.Recover(b, func(b []byte) (record, uint64, error) {
		r, err := decode(b)
		return r, r.Generation, err
	})
}

const suffix = ".sequence"

// fileName is the name of a sequence's file. Names are ASCII letters, digits and "_.:{}-", but whatever
// they hold, the file is in the directory. A file system that does not tell upper from lower case has
// one file for two such names; the name in the record tells them apart.
func fileName(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		plain := c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '-' || c == '{' || c == '}' ||
			c == '.' && i > 0
		if plain {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String() + suffix
}

// nameOf is the sequence of a file; ok is false if it is not a sequence's file.
func nameOf(file string) (name string, ok bool) {
	s, ok := strings.CutSuffix(file, suffix)
	if !ok {
		return "", false
	}
	name, err := url.PathUnescape(s)
	return name, err == nil && name != "" && fileName(name) == file
}
