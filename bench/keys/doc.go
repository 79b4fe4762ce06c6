// Package keys measures what kinds of id cost a database as a primary key: the size of its indexes, and
// the time that inserts take.
//
//	KATSUBUSHI_SOAK=1 go test -count=1 -v -timeout 60m ./bench/keys
//
// prints the tables of docs/CHOOSING.md. It starts a PostgreSQL and a MariaDB of its own.
package keys
