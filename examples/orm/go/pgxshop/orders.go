// Package pgxshop: the queries as sqlc writes them take the id as a parameter; what calls them asks for it.
package pgxshop

import (
	"context"

	"example.com/orders"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// CreateOrderParams is sqlc's. In query.sql: -- name: CreateOrder :exec, and -- name: CreateOrders :copyfrom.
type CreateOrderParams struct {
	ID   int64  `json:"id,string"`
	Item string `json:"item"`
}

const createOrder = `INSERT INTO orders (id, item) VALUES ($1, $2)`

func Create(ctx context.Context, pool *pgxpool.Pool, item string) (CreateOrderParams, error) {
	id, err := orders.Next(ctx)
	if err != nil {
		return CreateOrderParams{}, err
	}
	arg := CreateOrderParams{id, item}
	_, err = pool.Exec(ctx, createOrder, arg.ID, arg.Item)
	return arg, err
}

// CreateMany asks for all ids at once.
func CreateMany(ctx context.Context, pool *pgxpool.Pool, items []string) error {
	ids, err := orders.Take(ctx, len(items))
	if err != nil {
		return err
	}
	rows := pgx.CopyFromSlice(len(items), func(i int) ([]any, error) { return []any{ids[i], items[i]}, nil })
	_, err = pool.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "item"}, rows)
	return err
}

func Open() (*pgxpool.Pool, error) { return pgxpool.New(context.Background(), "") } // PGHOST, PGUSER, PGDATABASE
