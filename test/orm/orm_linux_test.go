package orm

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/katsubushi/katsubushi/v3/client"
	"github.com/katsubushi/katsubushi/v3/test/childprocess"
	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/sqltest"
)

// patience is how long a command to a program, or the start of a daemon, may take.
const patience = 3 * time.Minute

// A recipe is one file of examples/orm that a user copies, beside its language's ids.
type recipe struct {
	file  string // in examples/orm
	needs string // Debian's packages
	build string // shell command, in examples/orm; $WORK is a directory of the recipe's own
	run   string // the same; the program reads lines of "insert N" and "bulk N"
	stock bool   // the program keeps up to 1,000 ids
	// pool: the program issues ids itself, with a worker id of a pool that it shares with the daemons.
	pool bool

	// What the framework calls a driver, or the URL, for each database that the recipe is run with.
	postgres, mariadb string
}

const (
	python = "/usr/bin/python3 $DRIVERS/driver.py $PWD/python "
	ruby   = "/usr/bin/ruby $DRIVERS/driver.rb $PWD/ruby/"
	npm    = "test -e ../../bin/_orm/installed.json || " +
		"{ echo it was not run: npm has not installed its packages; exit 1; }\n" +
		"cp node/* $WORK && ln -s $PWD/../../bin/_orm/node_modules $WORK/node_modules"
	// The engine, which generate would download, is for migrations.
	prisma = npm + "\ncd $WORK && CHECKPOINT_DISABLE=1 PRISMA_SCHEMA_ENGINE_BINARY=/bin/true " +
		"node node_modules/prisma/build/index.js generate --schema schema.prisma --no-hints"
	node = "node $DRIVERS/driver.mjs $WORK/"
	php  = "/usr/bin/php $DRIVERS/driver.php $PWD/php/"
	// A copy, because ent writes its code beside the schema; no paths in what is compiled, so that it is
	// compiled once.
	goBuild = "cp -r go $WORK/go && root=$PWD/../.. && cd $WORK/go && " +
		"go mod edit -replace=github.com/katsubushi/katsubushi/v3=$root && "
	goProgram = goBuild + "go build -trimpath -o $WORK/program ./program"
	entgo     = goBuild + "go generate ./ent && go build -trimpath -tags generated -o $WORK/program ./program"
	library   = goBuild + "go generate ./ent && " +
		"go build -trimpath -tags generated,library -o $WORK/program ./program"
	jars = "CLASSPATH=$WORK; for jar in hibernate3 hibernate-c3p0 hibernate-commons-annotations " +
		"geronimo-jpa_2.0_spec geronimo-jta-1.2-spec dom4j commons-collections3 antlr slf4j-api slf4j-nop " +
		"javassist c3p0 mariadb-java-client; do CLASSPATH=$CLASSPATH:/usr/share/java/$jar.jar; done\n" +
		"export CLASSPATH\n"
	javac = jars + "javac -d $WORK java/*.java $DRIVERS/Driver.java"
	java  = "java -XX:TieredStopAtLevel=1 Driver"
)

var recipes = []recipe{ // the slowest come first
	{file: "go/gormshop/orders.go", build: library, run: "exec $WORK/program gorm", postgres: "postgres", pool: true},
	{file: "go/entshop/orders.go", build: library, run: "exec $WORK/program ent", postgres: "pgx", pool: true},
	{file: "go/pgxshop/orders.go", build: library, run: "exec $WORK/program pgx", postgres: "pgx", pool: true},
	{
		file:    "java/HibernateOrders.java",
		needs:   "libhibernate3-java libjavassist-java libc3p0-java libmariadb-java default-jdk-headless",
		build:   javac,
		run:     jars + "exec " + java,
		mariadb: "jdbc:mariadb://$DB_HOST:$DB_PORT/$DB_NAME?user=$DB_USER",
		stock:   true,
	},
	{file: "go/entshop/orders.go", build: entgo, run: "exec $WORK/program ent", postgres: "pgx"},
	{
		file:     "node/prisma_orders.mjs",
		build:    prisma,
		run:      "exec " + node + "prisma_orders.mjs",
		postgres: "postgresql",
	},
	{
		file:     "node/typeorm_orders.mjs",
		build:    npm,
		run:      "exec " + node + "typeorm_orders.mjs",
		postgres: "postgres",
		mariadb:  "mysql",
	},
	{
		file:     "node/sequelize_orders.mjs",
		build:    npm,
		run:      "exec " + node + "sequelize_orders.mjs",
		postgres: "postgres",
		mariadb:  "mysql",
	},
	{file: "node/drizzle_orders.mjs", build: npm, run: "exec " + node + "drizzle_orders.mjs", postgres: "pg"},
	{
		file:     "python/django_orders.py",
		needs:    "python3-django python3-psycopg2 python3-mysqldb python3-redis",
		run:      "exec " + python + "django_orders",
		postgres: "django.db.backends.postgresql",
		mariadb:  "django.db.backends.mysql",
	},
	{
		file:  "python/sqlalchemy_orders.py",
		needs: "python3-sqlalchemy python3-psycopg2 python3-mysqldb python3-redis",
		// What SQLAlchemy 2 no longer has is an error.
		run: "export SQLALCHEMY_WARN_20=1 PYTHONWARNINGS=error::DeprecationWarning\nexec " + python +
			"sqlalchemy_orders",
		postgres: "postgresql+psycopg2://",
		mariadb:  "mysql+mysqldb://$DB_USER@$DB_HOST:$DB_PORT/$DB_NAME",
	},
	{
		file:     "ruby/activerecord_orders.rb",
		needs:    "ruby-activerecord ruby-pg ruby-mysql2 ruby-redis ruby-connection-pool",
		run:      "exec " + ruby + "activerecord_orders.rb",
		postgres: "postgresql",
		mariadb:  "mysql2",
	},
	{
		file:     "ruby/sequel_orders.rb",
		needs:    "ruby-sequel ruby-pg ruby-redis ruby-connection-pool",
		run:      "exec " + ruby + "sequel_orders.rb",
		postgres: "postgres",
	},
	{
		file:     "php/doctrine_orders.php",
		needs:    "php-doctrine-orm php-symfony-cache php-pgsql php-redis php-cli",
		run:      "exec " + php + "doctrine_orders.php",
		postgres: "pdo_pgsql",
	},
	{
		file:     "php/eloquent_orders.php",
		needs:    "php-illuminate-database php-illuminate-events php-pgsql php-mysql php-redis php-cli",
		run:      "exec " + php + "eloquent_orders.php",
		postgres: "pgsql",
		mariadb:  "mysql",
	},
	{file: "go/gormshop/orders.go", build: goProgram, run: "exec $WORK/program gorm", postgres: "postgres"},
	{file: "go/pgxshop/orders.go", build: goProgram, run: "exec $WORK/program pgx", postgres: "pgx"},
}

// shared are the files that recipes need beside their own.
var shared = []string{"python/ids.py", "ruby/ids.rb", "php/ids.php", "go/ids.go", "go/daemons.go", "go/library.go",
	"node/ids.mjs", "java/Ids.java",
	"go/ent/schema/order.go", "node/schema.prisma"}

// drivers are the parts of the tests that only a module of the recipes' own can have.
var drivers = []string{"go/program/main.go", "go/program/ent.go", "go/ent/generate.go"}

// withReason matches the error that a user must see without a daemon. Of a connection that it had,
// phpredis says "Connection lost".
var withReason = regexp.MustCompile(`(?i)^error .*no id: .*(refused|connection lost)`)

// root is the source tree.
const root = "../.."

// TestRecipes: each recipe inserts rows one by one and in bulk while daemons stop, start and change what a
// name means. No id comes twice, a bulk insert asks once for each 1,000 ids, and without a daemon the user
// sees why there is no id.
func TestRecipes(t *testing.T) {
	if os.Getenv("KATSUBUSHI_REQUIRE_EXAMPLES") != "1" {
		t.Skip("make test-examples runs it: it needs frameworks")
	}
	program := daemonrun.Program(t)
	port := strconv.Itoa(childprocess.FreePort(t))
	databases := []*database{
		{Server: sqltest.Postgres(t), name: "PostgreSQL", port: "5432", use: `\connect `,
			of: func(r *recipe) string { return r.postgres }},
		{Server: sqltest.MariaDB(t, "--skip-networking=0", "--bind-address=127.0.0.1", "--port="+port),
			name: "MariaDB", port: port, use: "USE ", of: func(r *recipe) string { return r.mariadb }},
	}
	var worlds []*world
	t.Run("all", func(t *testing.T) { // ends before the databases do
		for i := range recipes {
			r := &recipes[i]
			for _, d := range databases {
				if d.of(r) == "" {
					continue
				}
				w := &world{recipe: r, program: program, database: d}
				worlds = append(worlds, w)
				t.Run(w.title()+"/"+d.name, func(t *testing.T) {
					t.Parallel()
					defer func(start time.Time) { w.took = time.Since(start) }(time.Now())
					w.T = t
					for _, name := range strings.Fields(r.needs) {
						if exec.Command("dpkg", "-s", name).Run() != nil {
							w.notRun = true
							t.Fatalf("it was not run: Debian's package %s is not installed", name)
						}
					}
					w.prepare()
					if r.pool {
						w.exercisePool()
					} else {
						w.exercise()
					}
				})
			}
		}
	})
	t.Log(table(worlds))
}

// table says how the recipes fared.
func table(worlds []*world) string {
	var b strings.Builder
	tab := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "\n\trecipe\tdatabase\ts\tsingle\tbulk\trequests for the last 10,000\tduplicates")
	for _, w := range worlds {
		verdict := "PASS"
		switch {
		case w.T == nil: // -run chose others
			continue
		case w.notRun:
			verdict = "NOT RUN"
		case w.Failed():
			verdict = "FAIL"
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%.1f\t%d\t%d\t%d\t%d\n", verdict, w.title(), w.database.name,
			w.took.Seconds(), w.single, w.rows-w.single, w.asked, w.duplicates)
	}
	tab.Flush()
	return b.String()
}

// A database is a server that recipes are run with.
type database struct {
	*sqltest.Server
	name string
	port string
	use  string                 // begins the statement that chooses a database
	of   func(r *recipe) string // what the recipe calls it, "" if it is not run with it
}

// A world is one recipe's: a program, its database and its two daemons.
type world struct {
	*testing.T
	recipe   *recipe
	program  string // the daemon's executable
	dir      string
	database *database
	name     string // of the recipe's database
	daemons  [2]*daemon
	rows     int // that the table must have
	child    *childprocess.Child
	input    io.WriteCloser
	output   chan string
	errors   *bytes.Buffer

	// For the table.
	notRun                    bool // something is not installed
	took                      time.Duration
	single, asked, duplicates int
}

// title tells recipes apart whose files are run twice.
func (w *world) title() string {
	if w.recipe.pool {
		return w.recipe.file + " with library.go"
	}
	return w.recipe.file
}

type daemon struct {
	port int
	http int
	args []string
	*daemonrun.Daemon
}

func (w *world) prepare() {
	t := w.T
	w.dir, w.name = t.TempDir(), strings.NewReplacer("/", "_", ".", "_", " ", "_").Replace(w.title())
	w.database.Do(t, "CREATE DATABASE "+w.name)
	w.sql("CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)")
	for i := range w.daemons {
		d := &daemon{port: childprocess.FreePort(t), http: childprocess.FreePort(t)}
		d.args = []string{"-worker-id", strconv.Itoa(i + 1), "-claim", "off", "-state-any-disk",
			"-state-dir", filepath.Join(w.dir, "state"+strconv.Itoa(i)),
			"-bind", "127.0.0.1", "-port", strconv.Itoa(d.port), "-http-port", strconv.Itoa(d.http)}
		w.daemons[i] = d
	}
}

// exercise is the whole life of a program.
func (w *world) exercise() {
	first, second := w.daemons[0], w.daemons[1]
	counters := "file://" + filepath.Join(w.dir, "counters")
	declared := []string{"-counters", counters, "-generator", "orders sequence start=1"}
	w.startDaemon(first, declared...)
	w.startDaemon(second, declared...)
	w.startProgram()
	w.insert(100)
	w.bulk(2000)
	if id := w.largest(); id > 999_999 {
		w.Fatal("an id of the sequence orders is ", id)
	}
	for _, d := range w.daemons { // one after the other: the name is plain then, and ids need 61 bits and more
		w.stopDaemon(d)
		w.startDaemon(d)
	}
	w.insert(200)
	w.stopDaemon(first)
	w.insert(300)
	w.bulk(4000)
	w.startDaemon(first)
	w.stopDaemon(second)
	w.insert(200)
	if id := w.largest(); id < 1<<53 {
		w.Error("the largest id needs no 64 bits: ", id)
	}
	w.startDaemon(second)
	w.send("insert 200") // while a daemon stops and starts
	w.stopDaemon(first)
	w.startDaemon(first)
	w.done(200)
	w.single += 200
	before := w.requests()
	w.bulk(10_000)
	w.asked = w.requests() - before
	if w.asked < 10 || w.asked > 12 { // a broken connection may cost one more
		w.Errorf("%d requests for 10,000 ids", w.asked)
	}
	w.stopDaemon(first)
	w.stopDaemon(second)
	line := w.withoutDaemon()
	for n := 0; w.recipe.stock && n < 1000 && strings.HasPrefix(line, "done "); n++ {
		w.rows++
		w.single++
		line = w.withoutDaemon()
	}
	w.Logf("without a daemon: %s", line)
	if !withReason.MatchString(line) {
		w.Error("this text has no reason")
	}
	w.startDaemon(second)
	w.insert(10)
	w.judge()
}

// judge compares what was inserted with what is there.
func (w *world) judge() {
	w.Helper()
	rows, ids := w.count("*"), w.count("DISTINCT id")
	w.duplicates = rows - ids
	if rows != w.rows || ids != w.rows {
		w.Errorf("%d rows and %d ids, and not %d", rows, ids, w.rows)
	}
}

// exercisePool is the life of a program that issues ids itself, beside a daemon of the same pool and after one.
func (w *world) exercisePool() {
	store := redistest.Start(w.T)
	d := w.daemons[0]
	d.args = append(d.args[2:], "-store", store.URL()) // no -worker-id
	makePool := exec.Command(w.program, "lease", "init", "-how", "new", "-store", store.URL())
	if out, err := makePool.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	w.startDaemon(d)
	w.startProgram("POOL=" + store.URL())
	w.insert(300)
	w.bulk(6000)
	w.insert(300)
	w.stopDaemon(d)
	w.insert(200)
	w.startDaemon(d)
	w.insert(200)
	w.bulk(10_000)
	before := w.largest()
	w.stopProgram() // gives its worker id back
	w.startProgram("POOL=" + store.URL())
	w.insert(10)
	if after := w.largest(); after <= before {
		w.Errorf("after a restart the largest id is %d, and not above %d", after, before)
	}
	w.bulk(10)
	w.sql(w.foreign(d, 10_000))
	w.rows += 10_000
	store.Pause()
	line := ""
	childprocess.Until(w, "an error while the pool cannot be asked", func() bool {
		line = w.withoutDaemon()
		if strings.HasPrefix(line, "done ") {
			w.rows++
			w.single++
		}
		return strings.HasPrefix(line, "error ")
	})
	w.Logf("without a window: %s", line)
	if !regexp.MustCompile(`no id: katsubushi: .*not ready: lease expired`).MatchString(line) {
		w.Error("this text has no reason")
	}
	store.Resume()
	childprocess.Until(w, "an id when the pool is back", func() bool {
		return strings.HasPrefix(w.withoutDaemon(), "done ")
	})
	w.rows++
	w.judge()
}

// foreign is SQL that inserts ids of a daemon: the database refuses one that is there.
func (w *world) foreign(d *daemon, n int) string {
	w.Helper()
	c, err := client.New(client.Static(net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port))), client.Config{})
	if err != nil {
		w.Fatal(err)
	}
	defer c.Close()
	ids, err := c.IDs(w.Context(), n)
	if err != nil {
		w.Fatal(err)
	}
	var rows []string
	for _, id := range ids {
		rows = append(rows, fmt.Sprintf("(%d, 'from a daemon')", id))
	}
	return "INSERT INTO orders VALUES " + strings.Join(rows, ", ") + ";"
}

// withoutDaemon inserts a row and returns what the program says of it.
func (w *world) withoutDaemon() string {
	w.Helper()
	w.send("insert 1")
	return w.line()
}

// count is how many rows or different values the table has.
func (w *world) count(what string) int {
	w.Helper()
	n, err := strconv.Atoi(w.sql("SELECT count(" + what + ") FROM orders"))
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// largest is the largest id in the table.
func (w *world) largest() int64 {
	w.Helper()
	id, err := strconv.ParseInt(w.sql("SELECT max(id) FROM orders"), 10, 64)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *world) startDaemon(d *daemon, more ...string) {
	w.Helper()
	d.Daemon = daemonrun.Run(w, exec.Command(w.program, append(d.args[:len(d.args):len(d.args)], more...)...))
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if answer, err := d.ask("get id"); err == nil && strings.HasPrefix(answer, "VALUE ") {
			return
		}
		if d.HasEnded() {
			w.Fatal("the daemon has ended")
		}
		if time.Now().After(deadline) {
			w.Fatal("the daemon does not answer")
		}
	}
}

func (w *world) stopDaemon(d *daemon) {
	w.Helper()
	if _, err := d.End(syscall.SIGTERM, patience); err != nil {
		w.Fatal(err)
	}
}

// ask sends a command in text and returns the answer.
func (d *daemon) ask(command string) (string, error) {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)), time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprintf(c, "%s\r\nquit\r\n", command)
	answer, err := io.ReadAll(c)
	return string(answer), err
}

// requests is how many requests for ids the daemons have answered since they started.
func (w *world) requests() (n int) {
	for _, d := range w.daemons {
		answer, err := d.ask("stats")
		_, value, ok := strings.Cut(answer, "STAT get_requests ")
		value, _, _ = strings.Cut(value, "\r\n")
		requests, _ := strconv.Atoi(value)
		if err != nil || !ok {
			w.Fatalf("%v: %s", err, answer)
		}
		n += requests
	}
	return n
}

// startProgram builds and starts the recipe's program.
func (w *world) startProgram(more ...string) {
	drivers, err := filepath.Abs("drivers")
	if err != nil {
		w.Fatal(err)
	}
	var addresses, overHTTP []string
	for _, d := range w.daemons {
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)))
		overHTTP = append(overHTTP, net.JoinHostPort("127.0.0.1", strconv.Itoa(d.http)))
	}
	settings := map[string]string{"DB_HOST": "127.0.0.1", "DB_PORT": w.database.port, "DB_USER": "root",
		"DB_NAME": w.name}
	if w.database.name == "PostgreSQL" {
		settings["DB_HOST"], settings["DB_USER"] = w.database.Socket, "postgres"
	}
	driver := os.Expand(w.database.of(w.recipe), func(key string) string { return settings[key] })
	env := append(os.Environ(), "DRIVERS="+drivers, "WORK="+w.dir, "IDS="+strings.Join(addresses, ","),
		"IDS_HTTP="+strings.Join(overHTTP, ","), "DB_DRIVER="+driver, "DATABASE_URL="+driver,
		"PGHOST="+w.database.Socket, "PGUSER=postgres", "PGDATABASE="+w.name)
	env = append(env, more...)
	for key, value := range settings {
		env = append(env, key+"="+value)
	}
	shell := func(command string) *exec.Cmd {
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir, cmd.Env = filepath.Join(root, "examples", "orm"), env
		return cmd
	}
	if w.recipe.build != "" {
		if out, err := shell(w.recipe.build).CombinedOutput(); err != nil {
			w.notRun = bytes.Contains(out, []byte("it was not run"))
			w.Fatalf("%v: %s", err, out)
		}
	}
	cmd := shell(w.recipe.run)
	w.errors, w.output = &bytes.Buffer{}, make(chan string)
	cmd.Stderr = w.errors
	input, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	reader, writer := io.Pipe()
	cmd.Stdout, w.input = writer, input
	child, err := childprocess.Start(cmd)
	if err != nil {
		w.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(reader); lines.Scan(); {
			// GORM logs slow statements to the standard output.
			if line := lines.Text(); strings.HasPrefix(line, "done") || strings.HasPrefix(line, "error") {
				w.output <- line
			}
		}
		close(w.output)
	}()
	go func() {
		<-child.Ended()
		writer.Close()
	}()
	w.child = child
	w.Cleanup(child.Kill)
}

// stopProgram ends the input of the program, and waits until it has ended.
func (w *world) stopProgram() {
	w.Helper()
	w.input.Close()
	select {
	case <-w.child.Ended():
	case <-time.After(patience):
		w.Fatal("the program does not end")
	}
}

func (w *world) send(command string) {
	if _, err := fmt.Fprintln(w.input, command); err != nil {
		w.Fatalf("%v: %s", err, w.errors)
	}
}

// line is the next line that the program prints.
func (w *world) line() string {
	w.Helper()
	select {
	case line, ok := <-w.output:
		if !ok {
			w.Fatalf("the program has ended: %s", w.errors)
		}
		return line
	case <-time.After(patience):
		w.Fatal("the program does not answer")
	}
	return ""
}

// done waits until a command is done, and looks for the id that the program says it inserted last.
func (w *world) done(n int) {
	w.Helper()
	line := w.line()
	what, last, _ := strings.Cut(line, " ")
	if what != "done" {
		w.Fatalf("%s\n%s", line, w.errors)
	}
	w.rows += n
	if last != "" && w.sql("SELECT count(*) FROM orders WHERE id = "+last) != "1" {
		w.Errorf("the program says that it inserted %s, which is not in the table", last)
	}
}

func (w *world) insert(n int) {
	w.Helper()
	w.send("insert " + strconv.Itoa(n))
	w.done(n)
	w.single += n
}

func (w *world) bulk(n int) {
	w.Helper()
	w.send("bulk " + strconv.Itoa(n))
	w.done(n)
}

// sql runs SQL in the recipe's database.
func (w *world) sql(text string) string {
	w.Helper()
	return w.database.Do(w.T, w.database.use+w.name+"\n"+text)
}

// maxLines is how many lines of code a user copies with one file: neither empty, nor a comment.
const maxLines = 40

// TestEveryRecipeIsRun: each file of the recipes is run, README.md names it, and it is short.
func TestEveryRecipeIsRun(t *testing.T) {
	folder := filepath.Join(root, "examples", "orm")
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	run := slices.Clone(shared)
	for _, r := range recipes {
		run = append(run, r.file)
	}
	files, err := exec.Command("git", "-C", folder, "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skip("not in a git repository: ", err)
	}
	for _, file := range strings.Fields(string(files)) {
		if !strings.Contains(file, "/") || slices.Contains([]string{".json", ".mod", ".sum"}, filepath.Ext(file)) {
			continue
		}
		if slices.Contains(drivers, file) {
			continue
		}
		if !slices.Contains(run, file) {
			t.Errorf("nothing runs %s", file)
		}
		if !strings.Contains(string(readme), "("+file+")") {
			t.Errorf("README.md does not name %s", file)
		}
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		if n := codeLines(string(text)); n > maxLines {
			t.Errorf("%s has %d lines of code: at most %d", file, n, maxLines)
		}
	}
}

// codeLines counts lines that are neither empty, nor a comment, nor nothing but brackets.
func codeLines(text string) (n int) {
	for line := range strings.Lines(text) {
		line = strings.Trim(line, " \t\r\n(){}[];,")
		comment := strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "#[") || strings.HasPrefix(line, "//") ||
			strings.HasPrefix(line, "/**") || strings.HasPrefix(line, "* ") || strings.HasPrefix(line, `"""`)
		if line != "" && !comment {
			n++
		}
	}
	return n
}
