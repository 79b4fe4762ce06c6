package keys

import (
	"crypto/rand"
	"database/sql"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/lib/pq"

	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

const (
	rows   = 300_000
	batch  = 1000 // rows in an INSERT
	rounds = 3
)

// A kind is a kind of primary key: its column, and the literal of one id. Ids are made as four daemons
// would make them that are asked in turn, 4,000 a second together.
type kind struct {
	name            string
	postgres, maria string                   // the type of the column
	literal         func(n int) (pg, my any) // nil: the database makes it
}

func milli(n int) uint64 { return 1_790_000_000_000 + uint64(n)/4 }

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func uuid(b []byte, version byte) (pg, my any) {
	b[6], b[8] = b[6]&0xf|version<<4, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return "'" + h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + "'", "x'" + h + "'"
}

// timed is 16 random bytes behind a time of 48 bits, as in UUIDv7 and ULID.
func timed(n int) []byte {
	b := random(16)
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], milli(n)<<16)
	copy(b, ms[:6])
	return b
}

var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding)

func both(text string) (pg, my any) { return "'" + text + "'", "'" + text + "'" }

var kinds = []kind{
	{"the database's own", "bigint GENERATED ALWAYS AS IDENTITY", "bigint AUTO_INCREMENT", nil},
	{"snowflake", "bigint", "bigint", func(n int) (pg, my any) {
		id := (milli(n)-1_420_070_400_000)<<22 | uint64(n%4+1)<<12
		return id, id
	}},
	{"uuid7", "uuid", "binary(16)", func(n int) (pg, my any) { return uuid(timed(n), 7) }},
	{"uuid4", "uuid", "binary(16)", func(n int) (pg, my any) { return uuid(random(16), 4) }},
	{"ulid, as text", "char(26)", "char(26) CHARACTER SET ascii", func(n int) (pg, my any) {
		return both(crockford.EncodeToString(append(make([]byte, 4), timed(n)...))[6:])
	}},
	{"objectid, as text", "char(24)", "char(24) CHARACTER SET ascii", func(n int) (pg, my any) {
		return both(fmt.Sprintf("%08x%010x%06x", milli(n)/1000, 0xa1b2c3d400+n%4, n/4&0xffffff))
	}},
	{"uuid4, as text", "char(36)", "char(36) CHARACTER SET ascii", func(n int) (pg, my any) {
		text, _ := uuid(random(16), 4)
		return text, text
	}},
}

// A database is one of the two.
type database struct {
	name    string
	db      *sql.DB
	column  func(kind) string
	literal func(kind, int) any
	// sizes returns bytes: of everything, of the index of the primary key (in MariaDB that is the table),
	// and of an index over another column.
	sizes func(t *testing.T) (all, primary, secondary int64)
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func databases(t *testing.T) []database {
	pg := sqltest.Postgres(t, "-c", "shared_buffers=128MB", "-c", "max_wal_size=8GB")
	my := sqltest.MariaDB(t, "--innodb-buffer-pool-size=128M")
	p, m := open(t, "postgres", "host="+pg.Dir+" user=postgres dbname=postgres sslmode=disable"),
		open(t, "mysql", "root@unix("+my.Socket+")/")
	for _, q := range []string{"CREATE DATABASE keysizes", "USE keysizes"} {
		if _, err := m.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return []database{
		{"PostgreSQL", p, func(k kind) string { return k.postgres }, func(k kind, n int) any {
			l, _ := k.literal(n)
			return l
		}, func(t *testing.T) (all, primary, secondary int64) {
			one(t, p, "SELECT pg_total_relation_size('photos'), pg_relation_size('photos_pkey'), "+
				"pg_relation_size('photos_owner')", &all, &primary, &secondary)
			return
		}},
		{"MariaDB", m, func(k kind) string { return k.maria }, func(k kind, n int) any {
			_, l := k.literal(n)
			return l
		}, func(t *testing.T) (all, primary, secondary int64) {
			var rest any
			one(t, m, "ANALYZE TABLE photos", &rest, &rest, &rest, &rest)
			one(t, m, "SELECT data_length+index_length, data_length, index_length FROM information_schema.tables WHERE "+
				"table_schema='keysizes' AND table_name='photos'", &all, &primary, &secondary)
			return
		}},
	}
}

func one(t *testing.T, db *sql.DB, query string, into ...any) {
	t.Helper()
	if err := db.QueryRow(query).Scan(into...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// fill inserts the rows and returns how long that took without making the statements.
func fill(t *testing.T, d database, k kind) (took time.Duration) {
	for _, q := range []string{"DROP TABLE IF EXISTS photos",
		"CREATE TABLE photos (id " + d.column(k) + " PRIMARY KEY, owner bigint NOT NULL, title char(60) NOT NULL)",
		"CREATE INDEX photos_owner ON photos (owner)"} {
		if _, err := d.db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	title := strings.Repeat("t", 60)
	for n := 0; n < rows; n += batch {
		var q strings.Builder
		for i := range batch {
			owner := uint64(n+i) * 0x9e3779b97f4a7c15 >> 44
			switch {
			case k.literal == nil && i == 0:
				fmt.Fprintf(&q, "INSERT INTO photos (owner, title) VALUES (%d,'%s')", owner, title)
			case k.literal == nil:
				fmt.Fprintf(&q, ",(%d,'%s')", owner, title)
			case i == 0:
				fmt.Fprintf(&q, "INSERT INTO photos VALUES (%v,%d,'%s')", d.literal(k, n+i), owner, title)
			default:
				fmt.Fprintf(&q, ",(%v,%d,'%s')", d.literal(k, n+i), owner, title)
			}
		}
		begin := time.Now()
		if _, err := d.db.Exec(q.String()); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		took += time.Since(begin)
	}
	return took
}

// TestKeys prints a table for each database. The kinds take turns, so that a slower minute of the machine
// hits all of them.
func TestKeys(t *testing.T) {
	if os.Getenv("KATSUBUSHI_SOAK") != "1" {
		t.Skip("it measures: KATSUBUSHI_SOAK=1 runs it")
	}
	for _, d := range databases(t) {
		times := map[string][]time.Duration{}
		sizes := map[string][3]int64{}
		for range rounds {
			for _, k := range kinds {
				times[k.name] = append(times[k.name], fill(t, d, k))
				all, primary, secondary := d.sizes(t)
				sizes[k.name] = [3]int64{all, primary, secondary}
			}
		}
		var version string
		one(t, d.db, "SELECT version()", &version)
		t.Logf("%s: %s, %d rows, medians of %d", d.name, version, rows, rounds)
		base := median(times[kinds[1].name])
		for _, k := range kinds {
			s, took := sizes[k.name], median(times[k.name])
			t.Logf("| %s | %.0f | %.0f | %.0f | %.0f | %.2fx |", k.name, float64(s[0])/1e6, float64(s[1])/1e6, float64(s[2])/1e6,
				rows/took.Seconds(), float64(took)/float64(base))
		}
	}
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}
