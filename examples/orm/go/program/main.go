// Command orm runs a recipe for the tests: orm NAME. Each line of the input is "insert N" or "bulk N".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"example.com/orders"
	"example.com/orders/gormshop"
	"example.com/orders/pgxshop"
)

// A shop inserts orders.
type shop struct {
	create     func(context.Context, string) (order any, err error)
	createMany func(context.Context, []string) error
}

// shops are the recipes. That of ent is there after its code was generated: see ent.go.
var shops = map[string]func() (shop, error){
	"gorm": of(gormshop.Open, gormshop.Create, gormshop.CreateMany),
	"pgx":  of(pgxshop.Open, pgxshop.Create, pgxshop.CreateMany),
}

// of makes a shop of a recipe's functions.
func of[DB, Order any](open func() (DB, error), create func(context.Context, DB, string) (Order, error),
	createMany func(context.Context, DB, []string) error) func() (shop, error) {
	return func() (shop, error) {
		db, err := open()
		return shop{
			func(ctx context.Context, item string) (any, error) { return create(ctx, db, item) },
			func(ctx context.Context, items []string) error { return createMany(ctx, db, items) },
		}, err
	}
}

func main() {
	ids, err := orders.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer ids.Close()
	shop, err := shops[os.Args[1]]()
	if err != nil {
		log.Fatal(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if last, err := shop.run(lines.Text()); err != nil {
			fmt.Println("error", strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Println("done", last)
		}
	}
}

// run returns the id of the last order as JSON's reader has it, whose numbers are doubles.
func (s shop) run(line string) (id any, err error) {
	var what string
	var n int
	fmt.Sscan(line, &what, &n)
	ctx := context.Background()
	if what == "bulk" {
		return "", s.createMany(ctx, slices.Repeat([]string{"tea"}, n))
	}
	var order any
	for range n {
		if order, err = s.create(ctx, "tea"); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	var read map[string]any
	err = json.Unmarshal(text, &read)
	return read["id"], err
}
