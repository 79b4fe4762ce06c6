package main

import (
	"context"
	"log"

	"example.com/orders/program"
)

func main() {
	db, err := open()
	if err != nil {
		log.Fatal(err)
	}
	program.Run(
		func(ctx context.Context, item string) (int64, error) { return create(ctx, db, item) },
		func(ctx context.Context, items []string) error { return createMany(ctx, db, items) })
}
