// Command testrun runs `go test` with the arguments that it is given and says what goes on: each
// package when it has ended, and every half minute what is running and what is compiled. `go test`
// itself keeps silent about a package until all those before it in the list have ended.
//
//	go run ./test/testrun -race ./...
//
// Of a package that fails it shows all but the tests that passed. What its tests said first stands once more at the
// very end, where a log that is cut keeps it. It exits as `go test` does.
//
// If TESTRUN_SKIPPED names a file, it adds a line there for each test that was skipped because
// something is missing here: the reason, a tab and the test. A test is left out that says which
// command runs it, or "does not apply".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// tellEvery is how often it says what is running.
const tellEvery = 30 * time.Second

func main() { os.Exit(run(os.Stdout, os.Args[1:])) }

// run runs `go test` and returns the exit code.
func run(w io.Writer, args []string) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(w, err)
		return 1
	}
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadBytes('\n')
			if len(line) > 0 {
				lines <- line
			}
			if err != nil {
				return
			}
		}
	}()
	r := &report{w: w, packages: map[string]*running{}, compiled: func() []string { return compiled(cmd.Process.Pid) }}
	r.follow(lines)
	r.keepSkipped(os.Getenv("TESTRUN_SKIPPED"))
	var failure *exec.ExitError
	err = cmd.Wait()
	io.WriteString(w, strings.Join(r.causes, ""))
	switch {
	case errors.As(err, &failure):
		return max(failure.ExitCode(), 1) // -1 if a signal ended it
	case err != nil:
		fmt.Fprintln(w, err)
		return 1
	}
	return 0
}

// An event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// A running package is one that has begun and not ended.
type running struct {
	since   time.Time
	output  []event
	passed  map[string]bool // tests
	skipped int
}

// A report writes what goes on. One goroutine uses it.
type report struct {
	w        io.Writer
	packages map[string]*running
	order    []string // of packages, as they began
	compiled func() []string
	skipped  []string // a line for each test
	causes   []string // lines of tests that failed
}

// follow reports until there are no more lines.
func (r *report) follow(lines <-chan []byte) {
	ticker := time.NewTicker(tellEvery)
	defer ticker.Stop()
	for {
		select {
		case line, more := <-lines:
			if !more {
				return
			}
			r.line(line)
		case <-ticker.C:
			r.tell()
		}
	}
}

// elsewhere matches the reasons of tests that another command runs, of those that are only helpers of others, and of
// those that say nothing about this engine or system.
var elsewhere = regexp.MustCompile(`make [a-z]|KATSUBUSHI_|race detector|for (an)?other tests?|runs it|does not apply`)

// place matches where in a test's file a reason stands.
var place = regexp.MustCompile(`^\S+\.go:\d+: `)

const maxReason = 200 // bytes of a reason that are kept

// skip notes a test that was skipped, if something was missing for it.
func (r *report) skip(name, test string, output []event) {
	var reason []string
	for _, o := range output {
		text := strings.TrimSpace(o.Output)
		if o.Test != test || strings.HasPrefix(text, "=== ") || strings.HasPrefix(text, "--- ") {
			continue
		}
		why := place.ReplaceAllString(text, "")
		if why != text {
			reason = nil // the last one is why; a line below it is its own
		}
		reason = append(reason, why)
	}
	if why := strings.Join(reason, " "); !elsewhere.MatchString(why) {
		r.skipped = append(r.skipped, fmt.Sprintf("%.*s\t%s %s", maxReason, why, short(name), test))
	}
}

// keepSkipped adds the lines of skipped tests to a file, if it has a name.
func (r *report) keepSkipped(path string) {
	if path == "" || len(r.skipped) == 0 {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = fmt.Fprintln(f, strings.Join(r.skipped, "\n"))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		fmt.Fprintln(r.w, err)
	}
}

// tell says what is running, and what is compiled.
func (r *report) tell() {
	var names []string
	for _, name := range r.order {
		if p := r.packages[name]; p != nil {
			names = append(names, fmt.Sprintf("%s %v", short(name), time.Since(p.since).Round(time.Second)))
		}
	}
	for _, name := range r.compiled() {
		names = append(names, "the compiler of "+short(name))
	}
	if len(names) == 0 {
		names = []string{"the go command"}
	}
	fmt.Fprintln(r.w, "      running:", strings.Join(names, ", "))
}

func (r *report) line(line []byte) {
	var e event
	if json.Unmarshal(bytes.TrimSpace(line), &e) != nil {
		r.w.Write(line) // of the go command, not of a test
		return
	}
	p := r.packages[e.Package]
	if p == nil && e.Package != "" {
		p = &running{since: time.Now(), passed: map[string]bool{}}
		r.packages[e.Package], r.order = p, append(r.order, e.Package)
	}
	switch {
	case e.Action == "build-output":
		io.WriteString(r.w, e.Output)
	case p == nil:
	case e.Action == "output":
		p.output = append(p.output, e)
	case e.Test != "" && (e.Action == "pass" || e.Action == "skip"):
		p.passed[e.Test] = true
		if e.Action == "skip" {
			p.skipped++
			r.skip(e.Package, e.Test, p.output)
		}
	case e.Test == "" && (e.Action == "pass" || e.Action == "skip" || e.Action == "fail"):
		r.ended(e, p)
		delete(r.packages, e.Package)
	}
}

const (
	maxCauses = 3   // lines of a failed test that are repeated
	maxCause  = 300 // bytes of each
)

// cause matches what a test says itself; what comes after it is often the log of a daemon.
var cause = regexp.MustCompile(`^(\s+\S+\.go:\d+|panic): `)

// ended reports a package that has ended.
func (r *report) ended(e event, p *running) {
	word, notes := "ok  ", ""
	if p.skipped > 0 {
		notes = fmt.Sprintf(", %d skipped", p.skipped)
	}
	said := map[string]int{} // by test
	for _, o := range p.output {
		if e.Action == "fail" && !p.passed[o.Test] {
			io.WriteString(r.w, o.Output)
			if said[o.Test] < maxCauses && cause.MatchString(o.Output) {
				said[o.Test]++
				line := strings.TrimSpace(o.Output)
				line = strings.ToValidUTF8(line[:min(len(line), maxCause)], "")
				r.causes = append(r.causes, fmt.Sprintf("FAIL  %s %s  %s\n", short(e.Package), o.Test, line))
			}
		}
		if o.Test == "" && strings.HasSuffix(o.Output, "(cached)\n") {
			notes += ", cached"
		}
	}
	switch e.Action {
	case "skip": // it has no tests
		return
	case "fail":
		word = "FAIL"
	}
	fmt.Fprintf(r.w, "%s  %s  %.1fs%s\n", word, short(e.Package), e.Elapsed, notes)
}

// short leaves away what all packages have in common.
func short(name string) string {
	return strings.TrimPrefix(name, "github.com/katsubushi/katsubushi/v3/")
}
