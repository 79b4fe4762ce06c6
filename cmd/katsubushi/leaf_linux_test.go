package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/sqltest"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// docsSQL returns the SQL of the docs that has a tag.
func docsSQL(t *testing.T, tag string) string {
	t.Helper()
	for _, page := range []string{"SEQUENCES.md", "MIGRATING.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		_, sql, ok := strings.Cut(string(text), "```sql "+tag+"\n")
		if sql, _, end := strings.Cut(sql, "```"); ok && end {
			return sql
		}
	}
	t.Fatalf("no SQL %s in the docs", tag)
	return ""
}

// The table that Leaf's script makes, and tinyid's.
const foreignTables = `CREATE TABLE leaf_alloc (biz_tag varchar(128) NOT NULL DEFAULT '', max_id bigint(20) NOT NULL DEFAULT '1', step int(11) NOT NULL,
	description varchar(256) DEFAULT NULL, update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
	PRIMARY KEY (biz_tag)) ENGINE=InnoDB;
CREATE TABLE tiny_id_info (id bigint(20) unsigned NOT NULL AUTO_INCREMENT, biz_type varchar(63) NOT NULL DEFAULT '', begin_id bigint(20) NOT NULL DEFAULT '0',
	max_id bigint(20) NOT NULL DEFAULT '0', step int(11) DEFAULT '0', delta int(11) NOT NULL DEFAULT '1', remainder int(11) NOT NULL DEFAULT '0',
	create_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', update_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00',
	version bigint(20) NOT NULL DEFAULT '0', PRIMARY KEY (id), UNIQUE KEY uniq_biz_type (biz_type)) ENGINE=InnoDB;
INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder) VALUES ('orders', 1, 4000, 100, 1, 0), ('odd', 1, 700, 100, 2, 1), ('even', 1, 700, 100, 2, 0);`

// A daemon on Leaf's table, with no more rights than the docs give it; and the SQL of the docs that moves
// there and back.
func TestProcessLeaf(t *testing.T) {
	t.Parallel()
	server := sqltest.MariaDB(t)
	server.Do(t, foreignTables)
	server.Do(t, docsSQL(t, "leaf-user"))
	long := strings.Repeat("x", 128)
	server.Do(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('items', 1, 1000), ('"+long+
		"', 1, 1000), ('broken', -5, 1000)")
	password := tempfile.Write(t, "password", "change me\n")
	root, own := "mysql://root@/test?layout=leaf&socket="+server.Socket,
		"mysql://katsubushi@/test?layout=leaf&socket="+server.Socket

	for command, want := range map[string]struct {
		code int
		says string
	}{
		"create orders sequence step=2":       {exitUsage, "no columns for step=, offset= and max="},
		"create orders sequence rate=9":       {exitUsage, "rate= and on-loss="},
		"create orders sequence order=strict": {exitUsage, "order=strict"},
		"retire items -force":                 {exitUsage, "no column that says that a sequence is retired"},
		"create items sequence start=5":       {exitUsage, "is not what is recorded"},
		"show nothing":                        {exitFailure, "no nothing in table leaf_alloc"},
	} {
		if code, stdout, stderr := runNameIn(root, strings.Fields(command)...); code != want.code ||
			!strings.Contains(stderr, want.says) {
			t.Errorf("%s: %d %s %s", command, code, stdout, stderr)
		}
	}
	if code, stdout, stderr := runNameIn(root, "create", "orders sequence start=500 batch=40"); code != exitOK {
		t.Fatal(stdout, stderr)
	}
	if code, _, stderr := runNameIn(root, "raise", "orders", "600"); code != exitOK ||
		!strings.Contains(stderr,
			"no value below 600 is granted any more; running daemons and Leaf servers first issue what they hold") {
		t.Error(code, stderr)
	}
	code, stdout, stderr := runNameIn(root, "list")
	if code != exitFailure || !strings.Contains(stdout, "not served: the name") ||
		!strings.Contains(stderr, "max_id of broken") {
		t.Error(code, stdout, stderr)
	}

	common := []string{"-worker-id", "1", "-max-wait", "1m", "-state-dir", "none", "-state-any-disk", "-counters", own,
		"-counters-password-file", password}
	var o, e bytes.Buffer
	if code := run(append(common, "-generator", "orders sequence step=2"), variables{}, &o, &e); code != exitUsage ||
		!strings.Contains(e.String(), "no columns") {
		t.Error(code, e.String())
	}
	p := start(t, append(common, "-http-port", freePort(t), "-generator", "orders sequence start=300 batch=40")...)
	p.Says(t, "is not served")
	p.Says(t, long[:20])
	c := countFrom(t, p)
	for want := uint64(600); want < 700; want++ { // more than a block
		if v := c.must(t, "orders"); v != want {
			t.Fatalf("%d, want %d", v, want)
		}
	}
	for path, want := range map[string]struct {
		status int
		body   string
	}{
		"/api/segment/get/orders": {200, "700"}, "/api/segment/get/items": {200, "1"},
		"/api/segment/get/other": {404, "no such generator: other\n"},
	} {
		if status, _, body := httpGet(p.HTTP(), path); status != want.status || body != want.body {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	status, _, body := httpGet(p.HTTP(), "/api/snowflake/get/other")
	if v, err := strconv.ParseUint(body, 10, 64); status != 200 || err != nil || v < 1<<40 {
		t.Errorf("%d %q", status, body)
	}
	server.Do(t, "INSERT INTO leaf_alloc (biz_tag, max_id, step) VALUES ('late', 70, 1000)")
	await(t, "a new row is served", func() bool {
		status, _, body := httpGet(p.HTTP(), "/api/segment/get/late")
		return status == 200 && body == "70"
	})
	p.end(t, syscall.SIGTERM)
	if got, _ := strconv.Atoi(server.Do(t, "SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders'")); got <= 700 {
		t.Errorf("max_id of orders is %d", got)
	}

	server.Do(t, "DELETE FROM leaf_alloc WHERE biz_tag NOT IN ('orders', 'late')")
	server.Do(t, docsSQL(t, "leaf-raise"))
	moves(t, server, "leaf", map[string]uint64{"orders": 0, "late": 0},
		"SELECT max_id FROM leaf_alloc WHERE biz_tag = 'orders'")
	// tinyid has issued up to max_id
	moves(t, server, "tinyid", map[string]uint64{"orders": 4001, "odd": 701, "even": 702},
		"SELECT max_id FROM tiny_id_info WHERE biz_type = 'orders'")
}

// moves follows the docs to files and back: the first values are those of want, unless they are 0, and
// then maxID selects a value that is above all that the daemon was granted.
func moves(t *testing.T, server *sqltest.Server, from string, want map[string]uint64, maxID string) {
	t.Helper()
	before := server.Do(t, maxID)
	lines := strings.Split(server.Do(t, docsSQL(t, from+"-leave")), "\n")
	if len(lines) != len(want) {
		t.Fatal(lines)
	}
	file := tempfile.Write(t, "generators", strings.Join(lines, "\n")+"\n")
	dir := t.TempDir()
	p := start(t, "-worker-id", "1", "-max-wait", "1m", "-state-dir", dir, "-state-any-disk", "-generators", file)
	c := countFrom(t, p)
	for name, first := range want {
		if v := c.must(t, name); first != 0 && v != first {
			t.Errorf("%s: the first value is %d, want %d", name, v, first)
		} else if name == "orders" && first == 0 && before != strconv.FormatUint(v, 10) {
			t.Errorf("the first value is %d, want %s", v, before)
		}
	}
	p.end(t, syscall.SIGKILL)
	next := fmt.Sprint(nextOf(t, "file://"+dir+"/sequences", "orders"))
	server.Do(t, strings.ReplaceAll(docsSQL(t, from+"-return"), "NEXT", next))
	if got := server.Do(t, maxID); got != next {
		t.Errorf("max_id is %s, want %s", got, next)
	}
}
