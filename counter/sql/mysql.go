package sql

import (
	"context"
	"crypto/tls"
	databasesql "database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"strconv"
	"strings"

	gomysql "github.com/go-sql-driver/mysql"

	"github.com/katsubushi/katsubushi/v3/internal/endpoint"
)

var mysql = dialect{
	name: "MySQL", schemes: []string{"mysql"}, port: 3306,
	options: map[string][]string{"tls": {"false", "skip-verify", "true"}, "tls-ca": nil},
	create: `CREATE TABLE {TABLE} (
  name varchar(64) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
  start_value decimal(20) NOT NULL, step_size decimal(20) NOT NULL, step_offset decimal(20) NOT NULL,
  max_value decimal(20) NOT NULL, block_size decimal(20) NOT NULL,
  next_value decimal(20) NOT NULL, floor_value decimal(20) NOT NULL, retired smallint NOT NULL,
  token varchar(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  history varchar(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, revision bigint NOT NULL
) ENGINE=InnoDB;`,
	condition: `CASE WHEN @@GLOBAL.read_only <> 0 THEN 'read-only' ` +
		`WHEN (SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = {SCHEMA} AND TABLE_NAME = '{NAME}') <> ` +
		`'InnoDB' THEN 'unlogged' ` +
		// with a binary log, recovery rolls back what that has lost
		`WHEN @@GLOBAL.innodb_flush_log_at_trx_commit NOT IN (1, 3) OR @@GLOBAL.log_bin = 1 AND @@GLOBAL.sync_binlog <> 1 ` +
		`THEN 'unsynced' ELSE '' END`,
	digest:    "crc32({TAG})",
	connector: connectMySQL,
	history:   historyOfMySQL,
	code:      mysqlCode,
	codes:     mysqlCodes,
}

// historyOfMySQL finds out which variables the server has: MariaDB has no server_uuid, and server_uid
// only from 10.5.26, 10.6.19 and 10.11.9 on. Replication demands different values of server_id.
func historyOfMySQL(ctx context.Context, db *databasesql.DB, _ *target) (string, error) {
	rows, err := db.QueryContext(ctx,
		"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('server_uuid', 'server_uid', 'server_id')")
	if err != nil {
		return "", err
	}
	defer rows.Close()
	has := map[string]bool{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return "", err
		}
		has[strings.ToLower(name)] = value != ""
	}
	switch {
	case has["server_uuid"]:
		return "@@server_uuid", rows.Err()
	case has["server_uid"]:
		return "CONCAT(@@server_id, '/', @@server_uid)", rows.Err()
	}
	return "CONCAT(@@server_id, '')", rows.Err()
}

func connectMySQL(t *target, password string) (driver.Connector, error) {
	c := gomysql.NewConfig()
	c.User, c.Passwd, c.DBName = t.user, password, t.database
	if c.Net, c.Addr = "unix", t.socket; t.host != "" {
		c.Net, c.Addr = "tcp", net.JoinHostPort(t.host, t.port)
		mode, ca := t.options["tls"], t.options["tls-ca"]
		c.TLS = &tls.Config{ServerName: t.host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: mode != "true" && ca == ""}
		var err error
		if c.TLS.RootCAs, err = endpoint.Roots(ca); err != nil {
			return nil, err
		}
		if mode == "false" {
			c.TLS = nil
		}
	}
	c.Timeout, c.ReadTimeout, c.WriteTimeout = t.patience, t.patience, t.patience
	c.InterpolateParams, c.Logger = true, &gomysql.NopLogger{}
	// a server whose default is another one would not commit, or cut off what it stores
	c.Params = map[string]string{"autocommit": "1", "sql_mode": "'STRICT_ALL_TABLES'",
		"innodb_lock_wait_timeout": strconv.Itoa(int(t.lockWait().Seconds()))}
	return gomysql.NewConnector(c)
}

// mysqlCode returns the number of a server's error, "TLS" if it has none, or "".
func mysqlCode(err error) string {
	if errors.Is(err, gomysql.ErrNoTLS) {
		return "TLS"
	}
	if e, ok := errors.AsType[*gomysql.MySQLError](err); ok {
		return strconv.Itoa(int(e.Number))
	}
	return ""
}

var mysqlCodes = map[string]string{
	again: "1062 1020 1213", ends: "1053 1317 1927",
	deadlock: "1213", locked: "1205", noTable: "1146", otherTable: "1054 1264 1406 1366", noRight: "1142 1143 1227",
	replica: "1290 1792 1836", noLogin: "1045 1130 1698 1251", noDatabase: "1049 1044", full: "1040 1203 1226",
	noTLS: "TLS",
}
