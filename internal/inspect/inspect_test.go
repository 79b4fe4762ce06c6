package inspect

import (
	"errors"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/generator"
	"github.com/katsubushi/katsubushi/v3/id"
)

// TestTakeApart: each form, and each error. The tests of `katsubushi inspect` have more of both.
func TestTakeApart(t *testing.T) {
	at := time.Date(2026, 11, 22, 1, 2, 3, 456e6, time.UTC)
	for text, kind := range map[string]string{
		"1573304824835870720": "snowflake", "01a200c6-44c0-73c1-aa5f-edcba9876610": "uuid7",
		"01M80CCH607GD9FYVJX9GXJCGG": "ulid", "6b023f0b720f06a5fedcba98": "objectid",
	} {
		x, err := TakeApart(text, generator.Katsubushi())
		if err != nil || x.Text != text || x.Kind != kind {
			t.Errorf("%s: %+v %v", text, x, err)
		} else if kind != "snowflake" && (!x.Time.Equal(at) || *x.WorkerID != 677 || *x.Sequence != 961) {
			t.Errorf("%s: %v, worker id %d, sequence %d", text, x.Time, *x.WorkerID, *x.Sequence)
		}
	}
	if x, err := TakeApart("01234567-89ab-4def-bedc-ba9876543210", generator.Katsubushi()); err != nil ||
		x.Kind != "uuid4" || x.Time != nil || x.WorkerID != nil || x.Sequence != nil {
		t.Errorf("a uuid4: %+v %v", x, err)
	}
	if _, err := TakeApart("<b>", generator.Katsubushi()); err != id.ErrSyntax {
		t.Errorf("no id: %v", err)
	}
	if _, err := TakeApart("c232ab00-9414-11ec-b3c8-9f6bdeced846", generator.Katsubushi()); !errors.Is(err, ErrVersion) {
		t.Errorf("version 1: %v", err)
	}
}
