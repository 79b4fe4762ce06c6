// Package schema says what orders are.
package schema

import (
	"context"

	"entgo.io/ent"
	"entgo.io/ent/schema/field"
	"entgo.io/ent/schema/mixin"
	"example.com/orders"
)

type Order struct{ ent.Schema }

func (Order) Mixin() []ent.Mixin { return []ent.Mixin{ID{}} }

func (Order) Fields() []ent.Field { return []ent.Field{field.Text("item")} }

// ID is a mixin for each schema whose ids come from katsubushi. In JSON they are strings: JavaScript's numbers
// have 53 bits.
type ID struct{ mixin.Schema }

func (ID) Fields() []ent.Field {
	return []ent.Field{field.Int64("id").Immutable().StructTag(`json:"id,string"`)}
}

// Hooks ask for the id. A DefaultFunc could not: it returns no error.
func (ID) Hooks() []ent.Hook {
	return []ent.Hook{func(next ent.Mutator) ent.Mutator {
		return ent.MutateFunc(func(ctx context.Context, m ent.Mutation) (ent.Value, error) {
			row, ok := m.(interface {
				ID() (int64, bool)
				SetID(int64)
			})
			if ok && m.Op().Is(ent.OpCreate) {
				if _, given := row.ID(); !given {
					id, err := orders.Next(ctx)
					if err != nil {
						return nil, err
					}
					row.SetID(id)
				}
			}
			return next.Mutate(ctx, m)
		})
	}}
}
