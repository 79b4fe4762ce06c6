//go:build generated

package main

import "example.com/orders/entshop"

func init() { shops["ent"] = of(entshop.Open, entshop.Create, entshop.CreateMany) }
