package main

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/katsubushi/katsubushi/v3/test/etcdtest"
	"github.com/katsubushi/katsubushi/v3/test/redistest"
	"github.com/katsubushi/katsubushi/v3/test/selfsigned"
	"github.com/katsubushi/katsubushi/v3/test/tempfile"
)

// A transcript is commands of a file in testdata/transcripts. What is not indented is what is said to the program:
//
//   - "$ katsubushi ..." is run in this process, with variables of the environment before it; those of "$ export" hold
//     for all that follow
//   - any other line behind "$ " is for sh
//   - flags and variables alone are settings of a daemon, with -worker-id=1 and -state-dir=none where they say nothing
//     of that; check-config is asked about them
//   - such settings with "=> FIELD FIELD" behind them: what these fields are, as a daemon has them
//   - "# ..." is for who reads it
//
// Below each stands, indented, what is said: to standard error with "!" before it. $D is a directory of files.
type transcript struct {
	dir string
	env variables
}

// TestTranscriptsOfCommands compares what commands say with the files. With -update it writes them: read the
// difference.
func TestTranscriptsOfCommands(t *testing.T) {
	paths, err := filepath.Glob("testdata/transcripts/*")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			runTranscript(t, path, "")
		})
	}
}

// TestCommandsOfEtcd: timestamps there.
func TestCommandsOfEtcd(t *testing.T) {
	t.Parallel()
	runTranscript(t, "testdata/etcd", etcdtest.URL(t, etcdtest.Start(t)))
}

// TestCommandsOfRedis: what lease and name say of a pool and of sequences in Redis.
func TestCommandsOfRedis(t *testing.T) {
	t.Parallel()
	runTranscript(t, "testdata/redis", redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always").URL())
}

// runTranscript compares one file, in which $URL is that of a store, and $HOST its host and port.
func runTranscript(t *testing.T, path, address string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	store, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	s := transcript{t.TempDir(), variables{}}
	s.makeFiles(t)
	var got strings.Builder
	for _, entry := range entries.FindAllString(string(want), -1) {
		line, was, _ := strings.Cut(entry, "\n")
		said, again := s.say(t, strings.NewReplacer("$D", s.dir, "$URL", address).Replace(line))
		if strings.Contains(said, "hush") {
			t.Errorf("%s: the password is told: %s", line, said)
		}
		if said = strings.ReplaceAll(said, s.dir, "$D"); store.Host != "" {
			said = strings.NewReplacer(address, "$URL", store.Host, "$HOST").Replace(said)
		}
		said = moments.ReplaceAllStringFunc(said, func(text string) string {
			if at, err := time.Parse(time.RFC3339, text); err == nil && time.Since(at).Abs() < time.Hour {
				return "NOW"
			}
			return text
		})
		if said = thisMachine.ReplaceAllString(said, "${1}..."); again { // the first try may have done it
			said = was
		}
		got.WriteString(line + "\n" + said)
	}
	compare(t, path, got.String())
}

// makeFiles makes files of secrets. One is open to others, and one key is not the certificate's.
func (s transcript) makeFiles(t *testing.T) {
	t.Helper()
	for _, key := range []string{"other.pem", "key.pem"} {
		if _, err := selfsigned.Write(filepath.Join(s.dir, "ca.pem"), filepath.Join(s.dir, key), 1); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"open": "hush", "password": "hush\n", "empty": ""} {
		tempfile.Write(t, filepath.Join(s.dir, name), text)
	}
	if err := os.Chmod(filepath.Join(s.dir, "open"), 0o644); err != nil {
		t.Fatal(err)
	}
}

var (
	wordOfLine = regexp.MustCompile(`('[^']*'|[^' ])+`)
	assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

	entries     = regexp.MustCompile(`(?m)^[^ \n].*\n(?: .*\n)*`)
	moments     = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
	thisMachine = regexp.MustCompile(`(this one is |"machine":")[0-9a-f]{32}`)
)

// say returns what a line is answered. again means that a store was too slow for the first answer.
func (s transcript) say(t *testing.T, line string) (said string, again bool) {
	t.Helper()
	command, isCommand := strings.CutPrefix(line, "$ ")
	if line[0] == '#' {
		return "", false
	}
	command, exports := strings.CutPrefix(command, "export ")
	env, args := maps.Clone(s.env), []string(nil)
	for _, word := range wordOfLine.FindAllString(command, -1) {
		word = strings.ReplaceAll(word, "'", "")
		if name, value, _ := strings.Cut(word, "="); args == nil && assignment.MatchString(word) {
			env[name] = value
		} else {
			args = append(args, word)
		}
	}
	switch at := slices.Index(args, "=>"); {
	case at >= 0:
		return sayFields(t, env, args[:at], args[at+1:]), false
	case !isCommand:
		return saySettings(env, args), false
	case exports:
		maps.Copy(s.env, env)
		return "", false
	case args[0] == "katsubushi":
		code, stdout, stderr, again := patiently(env, args[1:]...)
		said := indented("    ", stdout) + indented("  ! ", stderr)
		if code != exitOK {
			said += fmt.Sprintf("    exit code %d\n", code)
		}
		return said, again
	}
	out, err := exec.Command("sh", "-euc", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v %s", command, err, out)
	}
	return indented("    ", string(out)), false
}

// saySettings returns what check-config says, sorted.
func saySettings(env variables, args []string) string {
	named := slices.Clone(args)
	for name := range env {
		named = append(named, "-"+strings.ToLower(strings.ReplaceAll(name, "_", "-")))
	}
	all := []string{"check-config", "-state-dir=none"}
	if !slices.ContainsFunc(named, regexp.MustCompile(`^-(katsubushi-)?(redis|store|worker-id)(=|$)`).MatchString) {
		all = append(all, "-worker-id=1")
	}
	code, stdout, stderr, _ := patiently(env, append(all, args...)...)
	lines := slices.Sorted(strings.Lines(indented("    ", stderr+stdout)))
	if stdout == "" && code != exitUsage {
		lines = append(lines, fmt.Sprintf("    exit code %d\n", code))
	}
	return strings.Join(lines, "")
}

// sayFields returns fields of settings in which nothing is wrong.
func sayFields(t *testing.T, env variables, args, fields []string) string {
	t.Helper()
	p, _, err := parse(settings, args, env, nil)
	if err != nil || len(p.problems) > 0 {
		t.Errorf("%v %q: %v %v", env, args, err, p.problems)
	}
	said := ""
	for _, path := range fields {
		v := reflect.ValueOf(p).Elem()
		for name := range strings.SplitSeq(path, ".") {
			v = v.FieldByName(name)
		}
		said += indented("    ", fmt.Sprintf("%s=%v\n", path, v))
	}
	return said
}

// indented returns lines, without those around every list of what is wrong with settings.
func indented(by, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "katsubushi cannot start with") && !strings.HasPrefix(line, "katsubushi -h all lists") {
			b.WriteString(by + line)
		}
	}
	return b.String()
}
