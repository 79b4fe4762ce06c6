// Package gormshop: GORM's hook BeforeCreate asks for an id.
package gormshop

import (
	"context"

	"example.com/orders"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
)

// An Order says its id as a string in JSON: JavaScript's numbers have 53 bits.
type Order struct {
	ID   int64  `gorm:"primaryKey;autoIncrement:false" json:"id,string"`
	Item string `json:"item"`
}

// BeforeCreate runs for each row, also in CreateInBatches: it leaves ids that are there.
func (o *Order) BeforeCreate(tx *gorm.DB) (err error) {
	if o.ID == 0 {
		o.ID, err = orders.Next(tx.Statement.Context)
	}
	return err
}

func Create(ctx context.Context, db *gorm.DB, item string) (Order, error) {
	order := Order{Item: item}
	err := db.WithContext(ctx).Create(&order).Error
	return order, err
}

// CreateMany asks for all ids at once.
func CreateMany(ctx context.Context, db *gorm.DB, items []string) error {
	ids, err := orders.Take(ctx, len(items))
	if err != nil {
		return err
	}
	rows := make([]Order, len(items))
	for i, item := range items {
		rows[i] = Order{ids[i], item}
	}
	return db.WithContext(ctx).CreateInBatches(rows, 1000).Error
}

func Open() (*gorm.DB, error) { return gorm.Open(postgres.Open("")) } // PGHOST, PGUSER, PGDATABASE
