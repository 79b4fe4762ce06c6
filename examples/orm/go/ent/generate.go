// Package ent is what ent writes of schema: go generate ./ent.
package ent

//go:generate go tool ent generate ./schema
