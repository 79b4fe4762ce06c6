package etcd

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/katsubushi/katsubushi/v3/counter"
)

const formVersion = 1

// A record is what the key of a sequence holds, as JSON:
//
//	{"version":1,"key":"/katsubushi/default/seq/orders","cluster":"cdf818194e3a8c32","birth":"...","name":"orders",
//	"start":1,"step":1,"offset":1,"max":9223372036854775807,"batch":0,"strict":false,"next":101,"floor":0,
//	"retired":false,"token":"..."}
type record struct {
	counter.Record
	Key     string // that it was written to
	Cluster string // that it was written in, hexadecimal
	Birth   string // random; names this record among others of the same key
}

// form is a record in etcd. The order of its fields is that of the text.
type form struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Cluster string `json:"cluster"`
	Birth   string `json:"birth"`
	Name    string `json:"name"`
	Start   uint64 `json:"start"`
	Step    uint64 `json:"step"`
	Offset  uint64 `json:"offset"`
	Max     uint64 `json:"max"`
	Batch   uint64 `json:"batch"`
	Strict  bool   `json:"strict"`
	Next    uint64 `json:"next"`
	Floor   uint64 `json:"floor"`
	Retired bool   `json:"retired"`
	Token   string `json:"token"`
}

// A record of timestamps is that of a retired sequence of the same name, with all else in its token: so a program that
// does not know them refuses the name, and leaves the record alone. The token is, in one line,
//
//	timestamps 1 LAYOUT NODE AHEAD_MS STATE TERM_START TERM TOKEN
const (
	timedToken = "timestamps %d %s %d %d %s %d %s %s"
	timedMark  = "timestamps "

	active, retired, nobody = "active", "retired", "-"
)

// errVersion: another program wrote the record, so this one must not write over it.
var errVersion = errors.New("a record of another version")

func (r *record) encode() []byte {
	f := form{
		formVersion, r.Key, r.Cluster, r.Birth, r.Name, r.Start, r.Step, r.Offset, r.Max, r.Batch, r.Strict, r.Next, r.Floor,
		r.Retired, r.Token,
	}
	if t := r.Time; r.Timed() {
		state := active
		if r.Retired {
			state = retired
		}
		f.Strict, f.Retired = false, true
		f.Token = fmt.Sprintf(timedToken, formVersion, t.Layout, t.Node, t.Ahead.Milliseconds(), state, r.Begin,
			cmp.Or(r.Term, nobody), r.Token)
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

// decode reads a record. It accepts exactly what encode writes, of a correct definition: an operator who edits
// a record by hand may have meant another number.
func decode(b []byte) (record, error) {
	var f form
	if err := json.Unmarshal(b, &f); err != nil {
		return record{}, fmt.Errorf("no record of a sequence: %w", err)
	}
	if f.Version != formVersion {
		return record{}, fmt.Errorf("%w: %d, and this program knows %d", errVersion, f.Version, formVersion)
	}
	d := counter.Definition{Name: f.Name, Start: f.Start, Step: f.Step, Offset: f.Offset, Max: f.Max, Batch: f.Batch,
		Strict: f.Strict}
	r := record{counter.Record{Definition: d, Next: f.Next, Floor: f.Floor, Retired: f.Retired, Token: f.Token}, f.Key,
		f.Cluster, f.Birth}
	if strings.HasPrefix(f.Token, timedMark) {
		if err := r.decodeTimed(); err != nil {
			return record{}, err
		}
	}
	if !bytes.Equal(b, r.encode()) {
		return record{}, fmt.Errorf("no record as this program writes it")
	}
	return r, r.Check()
}

// decodeTimed reads what is in the token of a record of timestamps.
func (r *record) decodeTimed() error {
	version, ahead, state := 0, int64(0), ""
	t := &r.Time
	_, err := fmt.Sscanf(r.Token, timedToken, &version, &t.Layout, &t.Node, &ahead, &state, &r.Begin, &r.Term, &r.Token)
	if version != formVersion {
		return fmt.Errorf("%w: timestamps %d, and this program knows %d", errVersion, version, formVersion)
	}
	t.Ahead = time.Duration(ahead) * time.Millisecond
	if r.Strict, r.Retired = true, state == retired; r.Term == nobody {
		r.Term = ""
	}
	return err
}
