// Package inspect takes an id of any form apart: for `katsubushi inspect`, and for the status page.
package inspect

import (
	"errors"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// ErrVersion: the text is a UUID of a kind that the daemon does not make. Only versions 4 and 7 are its.
var ErrVersion = errors.New("not a UUID of RFC 9562, version 4 or 7: katsubushi makes no others")

// An ID is one id taken apart. The names in JSON are those of kayac's katsubushi-dump, the id itself,
// and its kind. Only the last two are known of a uuid4.
type ID struct {
	Text     string     `json:"id"` // a string: JavaScript's numbers hold 53 bits
	Time     *time.Time `json:"time,omitempty"`
	WorkerID *uint64    `json:"worker_id,omitempty"`
	Sequence *uint64    `json:"sequence,omitempty"`
	Kind     string     `json:"kind"`
	Excess   bool       `json:"-"` // it has more bits than ids of the layout, which are not shown
}

// TakeApart reads the text of an id. A decimal number is taken for a snowflake of layout l, which must
// pass its Check. The error is for people and does not repeat the text: id.ErrSyntax, ErrVersion, or
// that layout l does not fit into ids of this form.
func TakeApart(text string, l generator.Layout) (ID, error) {
	r, err := id.Parse(text)
	if err != nil {
		return ID{}, err
	}
	kind := generator.ULID
	switch r.Form() {
	case id.Decimal:
		x := withParts(text, "snowflake", l.Decompose(r.First))
		x.Excess = r.First>>(l.TimeBits+l.WorkerBits+l.SequenceBits) != 0
		return x, nil
	case id.ObjectID:
		kind = generator.ObjectID
	case id.UUID:
		switch version := r.High >> 12 & 0xf; {
		case r.First>>62 != 2 || version != 4 && version != 7:
			return ID{}, ErrVersion
		case version == 4:
			return ID{Text: text, Kind: "uuid4"}, nil
		}
		kind = generator.UUID7
	}
	t, err := generator.NewTextLayout(kind, l)
	if err != nil {
		return ID{}, err
	}
	return withParts(text, kind.String(), t.Decompose(r.High, r.First)), nil
}

func withParts(text, kind string, p generator.Parts) ID {
	return ID{Text: text, Time: &p.Time, WorkerID: &p.Worker, Sequence: &p.Sequence, Kind: kind}
}
