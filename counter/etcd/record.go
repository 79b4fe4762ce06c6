package etcd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/katsubushi/katsubushi/v3/counter"
)

// formVersion is that of the record's form.
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

// errVersion: another program wrote the record, so this one must not write over it.
var errVersion = errors.New("a record of another version")

func (r *record) encode() []byte {
	b, err := json.Marshal(form{
		formVersion, r.Key, r.Cluster, r.Birth, r.Name, r.Start, r.Step, r.Offset, r.Max, r.Batch, r.Strict, r.Next, r.Floor,
		r.Retired, r.Token,
	})
	if err != nil {
		panic(err) // texts and numbers
	}
	return b
}

// decode reads a record. It accepts exactly what encode writes, of a correct definition: whoever edits
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
	if !bytes.Equal(b, r.encode()) {
		return record{}, fmt.Errorf("no record as this program writes it")
	}
	return r, r.Check()
}
