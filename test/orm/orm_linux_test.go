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
	"time"

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
}

const (
	python = "/usr/bin/python3 $DRIVERS/driver.py $PWD/python "
	ruby   = "/usr/bin/ruby $DRIVERS/driver.rb $PWD/ruby/"
	npm    = "test -d ../../bin/_orm/node_modules || " +
		"{ echo it was not run: npm has not installed its packages; exit 1; }\n" +
		"cp node/*.mjs $WORK && ln -s $PWD/../../bin/_orm/node_modules $WORK/node_modules"
	node = "node $DRIVERS/driver.mjs $WORK/"
	php  = "/usr/bin/php $DRIVERS/driver.php $PWD/php/"
)

var recipes = []recipe{
	{
		file:  "python/django_orders.py",
		needs: "python3-django python3-psycopg2 python3-redis",
		run:   python + "django_orders",
	},
	{
		file:  "python/sqlalchemy_orders.py",
		needs: "python3-sqlalchemy python3-psycopg2 python3-redis",
		run:   python + "sqlalchemy_orders",
	},
	{
		file:  "ruby/activerecord_orders.rb",
		needs: "ruby-activerecord ruby-pg ruby-redis ruby-connection-pool",
		run:   ruby + "activerecord_orders.rb",
	},
	{
		file:  "ruby/sequel_orders.rb",
		needs: "ruby-sequel ruby-pg ruby-redis ruby-connection-pool",
		run:   ruby + "sequel_orders.rb",
	},
	{
		file:  "php/doctrine_orders.php",
		needs: "php-doctrine-orm php-symfony-cache php-pgsql php-redis php-cli",
		run:   php + "doctrine_orders.php",
	},
	{
		file:  "php/eloquent_orders.php",
		needs: "php-illuminate-database php-illuminate-events php-pgsql php-redis php-cli",
		run:   php + "eloquent_orders.php",
	},
	{file: "go/gorm/orders.go", build: "cd go && go build -o $WORK/program ./gorm", run: "$WORK/program"},
	{file: "go/pgx/orders.go", build: "cd go && go build -o $WORK/program ./pgx", run: "$WORK/program"},
	{file: "node/sequelize_orders.mjs", build: npm, run: node + "sequelize_orders.mjs"},
	{file: "node/drizzle_orders.mjs", build: npm, run: node + "drizzle_orders.mjs"},
}

// shared are the files that several recipes use.
var shared = []string{"python/ids.py", "ruby/ids.rb", "php/ids.php", "go/ids.go", "node/ids.mjs"}

// drivers are the parts of the tests that only a module of the recipes' own can have.
var drivers = []string{"go/gorm/main.go", "go/pgx/main.go", "go/program/program.go"}

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
	program := filepath.Join(t.TempDir(), "katsubushi")
	build := exec.Command("go", "build", "-o", program, "./cmd/katsubushi")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	database := sqltest.Postgres(t)
	t.Run("all", func(t *testing.T) { // ends before the database does
		for i := range recipes {
			r := &recipes[i]
			t.Run(r.file, func(t *testing.T) {
				t.Parallel()
				for _, name := range strings.Fields(r.needs) {
					if exec.Command("dpkg", "-s", name).Run() != nil {
						t.Fatalf("it was not run: Debian's package %s is not installed", name)
					}
				}
				newWorld(t, r, program, database).exercise()
			})
		}
	})
}

// A world is one recipe's: a program, its database and its two daemons.
type world struct {
	*testing.T
	recipe   *recipe
	program  string // the daemon's executable
	dir      string
	database *sqltest.Server
	name     string // of the recipe's database
	daemons  [2]*daemon
	rows     int // that the table must have
	input    io.Writer
	output   chan string
	errors   *bytes.Buffer
}

type daemon struct {
	port  int
	args  []string
	cmd   *exec.Cmd
	child *redistest.Child
}

func newWorld(t *testing.T, r *recipe, program string, database *sqltest.Server) *world {
	name := strings.NewReplacer("/", "_", ".", "_").Replace(r.file)
	w := &world{T: t, recipe: r, program: program, dir: t.TempDir(), database: database, name: name}
	database.Do(t, "CREATE DATABASE "+name)
	w.sql("CREATE TABLE orders (id bigint PRIMARY KEY, item text NOT NULL)")
	for i := range w.daemons {
		d := &daemon{port: redistest.FreePort(t)}
		d.args = []string{"-worker-id", strconv.Itoa(i + 1), "-claim", "off", "-state-any-disk",
			"-state-dir", filepath.Join(w.dir, "state"+strconv.Itoa(i)),
			"-bind", "127.0.0.1", "-port", strconv.Itoa(d.port)}
		w.daemons[i] = d
	}
	t.Cleanup(func() {
		for _, d := range w.daemons {
			if d.child != nil {
				d.child.Kill()
			}
		}
	})
	return w
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
	if largest := w.sql("SELECT max(id) FROM orders"); len(largest) > 6 {
		w.Fatal("an id of the sequence orders is ", largest)
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
	w.startDaemon(second)
	w.send("insert 200") // while a daemon stops and starts
	w.stopDaemon(first)
	w.startDaemon(first)
	w.done(200)
	before := w.requests()
	w.bulk(10_000)
	if asked := w.requests() - before; asked < 10 || asked > 12 { // a broken connection may cost one more
		w.Errorf("%d requests for 10,000 ids", asked)
	}
	w.stopDaemon(first)
	w.stopDaemon(second)
	w.send("insert 1")
	if line := w.line(); !withReason.MatchString(line) {
		w.Errorf("without a daemon: %q", line)
	}
	w.startDaemon(second)
	w.insert(10)
	if got := w.sql("SELECT count(*), count(DISTINCT id) FROM orders"); got != fmt.Sprintf("%d|%[1]d", w.rows) {
		w.Errorf("rows and ids are %s, and not %d", got, w.rows)
	}
}

func (w *world) startDaemon(d *daemon, more ...string) {
	w.Helper()
	d.cmd = exec.Command(w.program, append(d.args[:len(d.args):len(d.args)], more...)...)
	var log bytes.Buffer
	d.cmd.Stderr = &log
	var err error
	if d.child, err = redistest.StartChild(d.cmd); err != nil {
		w.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if answer, err := d.ask("get id"); err == nil && strings.HasPrefix(answer, "VALUE ") {
			return
		}
		select {
		case <-d.child.Ended():
			w.Fatalf("the daemon has ended: %s", &log)
		default:
		}
		if time.Now().After(deadline) {
			w.Fatal("the daemon does not answer")
		}
	}
}

func (w *world) stopDaemon(d *daemon) {
	w.Helper()
	d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.child.Ended():
	case <-time.After(patience):
		w.Fatal("the daemon does not end")
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
func (w *world) startProgram() {
	drivers, err := filepath.Abs("drivers")
	if err != nil {
		w.Fatal(err)
	}
	var addresses []string
	for _, d := range w.daemons {
		addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(d.port)))
	}
	env := append(os.Environ(), "DRIVERS="+drivers, "WORK="+w.dir, "IDS="+strings.Join(addresses, ","),
		"PGHOST="+w.database.Socket, "PGUSER=postgres", "PGDATABASE="+w.name)
	shell := func(command string) *exec.Cmd {
		cmd := exec.Command("sh", "-ec", command)
		cmd.Dir, cmd.Env = filepath.Join(root, "examples", "orm"), env
		return cmd
	}
	if w.recipe.build != "" {
		if out, err := shell(w.recipe.build).CombinedOutput(); err != nil {
			w.Fatalf("%v: %s", err, out)
		}
	}
	cmd := shell("exec " + w.recipe.run)
	w.errors, w.output = &bytes.Buffer{}, make(chan string)
	cmd.Stderr = w.errors
	input, err := cmd.StdinPipe()
	if err != nil {
		w.Fatal(err)
	}
	reader, writer := io.Pipe()
	cmd.Stdout, w.input = writer, input
	child, err := redistest.StartChild(cmd)
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
	w.Cleanup(child.Kill)
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
}

func (w *world) bulk(n int) {
	w.Helper()
	w.send("bulk " + strconv.Itoa(n))
	w.done(n)
}

// sql runs SQL in the recipe's database.
func (w *world) sql(text string) string {
	w.Helper()
	return w.database.Do(w.T, `\connect `+w.name+"\n"+text)
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
