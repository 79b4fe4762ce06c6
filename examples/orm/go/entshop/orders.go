// Package entshop: ent's hook asks for an id; see ent/schema.
package entshop

import (
	"context"
	"database/sql"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"example.com/orders"
	"example.com/orders/ent"
	_ "example.com/orders/ent/runtime" // the hooks
	_ "github.com/jackc/pgx/v5/stdlib"
)

func Create(ctx context.Context, db *ent.Client, item string) (*ent.Order, error) {
	return db.Order.Create().SetItem(item).Save(ctx)
}

// CreateMany asks for all ids at once: the hook leaves ids that are there.
func CreateMany(ctx context.Context, db *ent.Client, items []string) error {
	ids, err := orders.Take(ctx, len(items))
	for err == nil && len(items) > 0 {
		n := min(len(items), 1000)
		set := func(c *ent.OrderCreate, i int) { c.SetID(ids[i]).SetItem(items[i]) }
		err = db.Order.MapCreateBulk(items[:n], set).Exec(ctx)
		ids, items = ids[n:], items[n:]
	}
	return err
}

func Open() (*ent.Client, error) {
	db, err := sql.Open("pgx", "") // PGHOST, PGUSER, PGDATABASE
	return ent.NewClient(ent.Driver(entsql.OpenDB(dialect.Postgres, db))), err
}
