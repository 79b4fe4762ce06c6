//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/daemonrun"
	"github.com/katsubushi/katsubushi/v3/test/order"
)

const (
	buildLimit = 5 * time.Minute  // for compiling a set-up's program
	endLimit   = 10 * time.Second // for what a set-up started to end after it
)

// options are the command line.
type options struct {
	only    *regexp.Regexp
	program string
	example bool
	tapped  bool
	table   string
	timeout time.Duration
}

func main() {
	o := options{only: regexp.MustCompile("")}
	flag.Func("only", "run the set-ups whose name, language or protocol matches this regular expression",
		func(s string) (err error) {
			o.only, err = regexp.Compile("(?i)" + s)
			return err
		})
	flag.StringVar(&o.program, "program", "", "the daemon's executable; without it the one of this source tree is built")
	flag.BoolVar(&o.example, "examples", false,
		"run the programs of examples/ instead; those that cannot be installed fail with KATSUBUSHI_REQUIRE_EXAMPLES=1")
	flag.BoolVar(&o.tapped, "bytes", false,
		"relay what set-ups and daemon say into tmp/clients/*/conversation, check which protocol it is, show it if a "+
			"set-up fails")
	flag.StringVar(&o.table, "table", "", "rewrite the table in this file (test/clients/RESULTS.md) from what was run")
	flag.DurationVar(&o.timeout, "timeout", time.Minute, "of one set-up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clients:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

// A result is what became of one set-up.
type result struct {
	setup   *setup
	version string
	verdict string // PASS, FAIL or SKIP
	text    string // what it did, or why not
}

func run(ctx context.Context, o options) (failed int, err error) {
	root, err := moduleRoot()
	if err != nil {
		return 0, err
	}
	r, err := newRunner(root, filepath.Join(root, "tmp", "clients"), o)
	if err != nil {
		return 0, err
	}
	if _, err := r.launcher.get(""); err != nil {
		return 0, err
	}
	list := setups
	if o.example {
		list = examples
	}
	chosen := chosenSetups(list, o.only)
	r.installer.debian(chosen)

	count := map[string]int{}
	var results []result
	for _, s := range chosen {
		if err := ctx.Err(); err != nil {
			r.launcher.stop()
			if r.fleet != nil {
				r.fleet.stop()
			}
			return 0, err
		}
		res := r.try(ctx, s)
		fmt.Printf("%s  %s %s: %s\n", res.verdict, res.setup, res.version, res.text)
		count[res.verdict]++
		results = append(results, res)
	}
	if r.fleet != nil {
		for _, err := range r.fleet.stop() {
			fmt.Printf("FAIL  %v\n", err)
			count["FAIL"]++
		}
	}
	for _, err := range r.launcher.stop() {
		fmt.Printf("FAIL  %v\n", err)
		count["FAIL"]++
	}
	if o.table != "" {
		if err := rewriteTable(o.table, results); err != nil {
			return 0, err
		}
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", count["PASS"], count["FAIL"], count["SKIP"])
	return count["FAIL"], nil
}

func chosenSetups(list []setup, pattern *regexp.Regexp) (chosen []*setup) {
	for i := range list {
		if s := &list[i]; pattern.MatchString(s.String()) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// moduleRoot is the directory of the go.mod that the command was started under.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

type runner struct {
	options
	root         string // of the source tree
	source, work string
	require      bool
	checker      checker
	installer    installer
	launcher     launcher
	fleet        *fleet          // nil until a set-up needs it
	followed     []order.Request // what all its clients were answered
}

// newRunner makes a runner that writes to the directory work and nowhere else.
func newRunner(root, work string, o options) (*runner, error) {
	r := &runner{
		options: o,
		root:    root,
		source:  filepath.Join(root, "test", "clients"),
		work:    work,
		require: os.Getenv("KATSUBUSHI_REQUIRE") == "1",
		checker: checker{seen: make(map[uint64]string)},
	}
	if err := os.MkdirAll(r.work, 0o755); err != nil {
		return nil, err
	}
	r.installer = installer{source: r.source, work: r.work}
	r.launcher = launcher{work: r.work, running: make(map[string]*daemon), failed: make(map[string]error)}
	return r, r.findServer()
}

// findServer builds the daemon, unless it is another program that is to be run.
func (r *runner) findServer() error {
	r.launcher.extra = strings.Fields(os.Getenv("KATSUBUSHI_ARGS"))
	if r.program != "" {
		r.launcher.program = r.program
		return nil
	}
	var err error
	r.launcher.program, err = daemonrun.Build()
	return err
}

// try installs, builds, runs and checks one set-up.
func (r *runner) try(ctx context.Context, s *setup) result {
	res := result{setup: s, verdict: "FAIL"}
	version, err := r.installer.version(s)
	if err != nil {
		res.text = err.Error()
		if required := r.require && !s.isExample() || os.Getenv("KATSUBUSHI_REQUIRE_EXAMPLES") == "1" &&
			s.isExample(); !required || s.optional != "" {
			res.verdict = "SKIP"
		}
		return res
	}
	res.version = version
	if res.text, err = r.play(ctx, s); err == nil {
		res.verdict = "PASS"
		return res
	}
	if res.text = err.Error(); errors.Is(err, errNoEtcd) && !r.require {
		res.verdict = "SKIP"
	}
	return res
}

// play starts the daemon that a set-up needs, and runs and checks it.
func (r *runner) play(ctx context.Context, s *setup) (string, error) {
	if s.server == "fleet" {
		return r.follow(ctx, s)
	}
	d, err := r.launcher.get(s.server)
	switch {
	case err != nil:
		return "", err
	case s.isExample():
		return r.exemplify(ctx, s, d)
	case r.tapped && d.kind == "":
		return r.exerciseTapped(ctx, s, d)
	}
	return r.exercise(ctx, s, d, d.port)
}

// exerciseTapped is exercise with a tap on the wire.
func (r *runner) exerciseTapped(ctx context.Context, s *setup, d *daemon) (string, error) {
	t, err := newTap(d.port)
	if err != nil {
		return "", err
	}
	defer t.listener.Close()
	text, err := r.exercise(ctx, s, d, t.port())
	if err := os.WriteFile(filepath.Join(r.work, s.dir(), "conversation"), []byte(t.String()), 0o644); err != nil {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, t)
	}
	if spoken := t.protocols(); spoken != s.protocol {
		return "", fmt.Errorf("it spoke %s, not %s\n%s", spoken, s.protocol, t)
	}
	return text, nil
}

// exercise builds and runs a set-up's program and checks what it printed.
func (r *runner) exercise(ctx context.Context, s *setup, d *daemon, port int) (string, error) {
	ports, err := r.launcher.freePorts(2)
	if err != nil {
		return "", err
	}
	work := filepath.Join(r.work, s.dir())
	if err := os.MkdirAll(work, 0o777); err != nil {
		return "", err
	}
	env := append(os.Environ(),
		"HOST="+host, "PORT="+strconv.Itoa(port), "REDIS_PORT="+strconv.Itoa(d.second), "GRPC_PORT="+strconv.Itoa(d.second),
		"SOCKET="+d.socket, "CERT="+d.cert,
		"SPARE_PORT="+strconv.Itoa(ports[0]), "STATS_PORT="+strconv.Itoa(ports[1]),
		"LOGIN="+username+" "+password, "WORK="+work,
		"NODE_PATH="+filepath.Join(r.work, "node", "node_modules"),
		"PATH="+r.installer.bin()+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	env = append(env, r.exampleEnv(port)...)
	if s.snippet != "" {
		if err := r.writeSnippet(s, filepath.Join(work, s.snippet), port); err != nil {
			return "", err
		}
	}
	if s.build != "" {
		if out, err := r.shell(ctx, s.build, env, buildLimit); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
	}
	began := time.Now()
	out, err := r.shell(ctx, s.run, env, r.timeout)
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, indent(out))
	}
	text, err := r.checker.check(s, s.printed(out), began, time.Now())
	if err != nil {
		return "", fmt.Errorf("%w\n%s", err, indent(out))
	}
	if text == "" {
		text = "ok" // a set-up that judges for itself
	}
	return text, nil
}

// shell runs a command, kills it and its children after a while, and returns its standard output;
// its standard error if it failed.
func (r *runner) shell(ctx context.Context, command string, env []string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", command)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = r.source, env, &stdout, &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = endLimit
	err := cmd.Run()
	if cmd.Process != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whatever it left behind
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("did not end within %s", limit)
	case errors.Is(err, exec.ErrWaitDelay):
		err = errors.New("left processes behind")
	}
	if err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}

// indent sets the last lines of a failed program's output apart from the verdicts.
func indent(out string) string {
	lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-15):], "\n    ")
}
