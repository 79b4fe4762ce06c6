package sql

import (
	"context"
	databasesql "database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/lib/pq"
)

var postgres = dialect{
	name: "PostgreSQL", schemes: []string{"postgres", "postgresql"}, port: 5432,
	options: map[string][]string{"sslmode": {"disable", "require", "verify-ca", "verify-full"}, "sslrootcert": nil,
		"sslcert": nil, "sslkey": nil},
	create: `CREATE TABLE {TABLE} (
  name varchar(64) COLLATE "C" PRIMARY KEY,
  start_value numeric(20) NOT NULL, step_size numeric(20) NOT NULL, step_offset numeric(20) NOT NULL,
  max_value numeric(20) NOT NULL, block_size numeric(20) NOT NULL,
  next_value numeric(20) NOT NULL, floor_value numeric(20) NOT NULL, retired smallint NOT NULL,
  token varchar(64) NOT NULL, history varchar(128) NOT NULL, revision bigint NOT NULL
);`,
	numbered: true,
	condition: `CASE WHEN (SELECT relpersistence FROM pg_class WHERE oid = '{TABLE}'::regclass) <> 'p' THEN 'unlogged' ` +
		`WHEN current_setting('fsync') = 'off' THEN 'unsynced' ELSE '' END`,
	digest:    "('x' || substr(md5({TAG}), 1, 8))::bit(32)::bigint",
	connector: connectPostgres,
	history: func(context.Context, *databasesql.DB, *target) (string, error) {
		// not the timeline of pg_control, which lags behind a promotion. A restored dump has another table.
		return `(SELECT system_identifier::text FROM pg_control_system()) || '/' || ` +
			`substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' || '{TABLE}'::regclass::oid::text`, nil
	},
	code: postgresCode, codes: postgresCodes,
}

func connectPostgres(t *target, password string) (driver.Connector, error) {
	// as a struct, so that no PG... variable of the environment changes it
	port, _ := strconv.ParseUint(t.port, 10, 16)
	c := pq.Config{
		Host: t.host, Port: uint16(port), User: t.user, Password: password, Database: t.database, ConnectTimeout: t.patience,
		ApplicationName: "katsubushi", ClientEncoding: "UTF8", Datestyle: "ISO, MDY", SSLSNI: true,
		MinProtocolVersion: "3.0", MaxProtocolVersion: "3.0",
		SSLMode: pq.SSLMode(t.options["sslmode"]), SSLRootCert: t.options["sslrootcert"], SSLCert: t.options["sslcert"],
		SSLKey: t.options["sslkey"],
		Runtime: map[string]string{
			"synchronous_commit": "on", "lock_timeout": strconv.FormatInt(t.lockWait().Milliseconds(), 10),
			"default_transaction_isolation": "read committed",
		},
	}
	if t.socket != "" {
		c.Host, c.SSLMode = t.socket, pq.SSLModeDisable
	} else if c.SSLMode == "" {
		c.SSLMode = pq.SSLModeRequire
	}
	connector, err := pq.NewConnectorConfig(c)
	if err != nil {
		return nil, err
	}
	connector.Dialer(dialer{t.patience})
	return connector, nil
}

// A dialer makes connections on which no read or write takes longer than patience: the client library
// waits for ever for a server that has stopped, whatever its context says.
type dialer struct{ patience time.Duration }

func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

func (d dialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	var plain net.Dialer
	c, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return impatient{c, d.patience}, nil
}

type impatient struct {
	net.Conn
	patience time.Duration
}

func (c impatient) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c impatient) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// postgresCode returns the code of a server's error, "TLS" if it has none, or "".
func postgresCode(err error) string {
	if errors.Is(err, pq.ErrSSLNotSupported) {
		return "TLS"
	}
	if e, ok := errors.AsType[*pq.Error](err); ok {
		return string(e.Code)
	}
	return ""
}

var postgresCodes = map[string]string{
	again: "40001 23505 40P01", ends: "57P01 57P02 57P03 57014",
	deadlock: "40P01", locked: "55P03", noTable: "42P01", otherTable: "42703 42804 22003 22001", noRight: "42501",
	replica: "25006 55000", noLogin: "28P01 28000", noDatabase: "3D000", full: "53300",
	noSSL: "TLS",
}
