package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/katsubushi/katsubushi/v3/internal/server"
)

// maxConfigFile is the most bytes that a -config file may have.
const maxConfigFile = 1 << 20

// inlineComment finds in a value what was probably meant as a comment. It is a part of the value, as it always was.
var inlineComment = regexp.MustCompile(`\s#`)

// A fileValue is a setting in a file.
type fileValue struct {
	name  string // with its place, for messages
	value string
}

func configSetting() setting {
	return setting{name: "config", topic: topicDaemon, set: ignored, // parse has read it
		help: "`file` of flags, one per line, without the dash: worker-id 7; " +
			"a line that begins with # is a comment; flags and the environment override it"}
}

// readConfig returns the settings in a file by their names, and everything that is wrong with it.
func readConfig(path string) (values map[string]fileValue, problems []error) {
	text, err := readSmall(path)
	if err != nil {
		return nil, []error{fmt.Errorf("-config: %w", err)}
	}
	known := everySetting()
	values = map[string]fileValue{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		wrong := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("%s line %d: %w", path, i+1, fmt.Errorf(format, args...)))
		}
		name, value := line, ""
		if end := strings.IndexAny(line, " \t="); end >= 0 {
			name, value = line[:end], strings.TrimSpace(line[end:])
			value = strings.TrimSpace(strings.TrimPrefix(value, "="))
		}
		at := slices.IndexFunc(known, func(s setting) bool { return s.name == name })
		switch before, twice := values[name]; {
		case at < 0:
			wrong("%.60q is not a flag; it stands without a dash", name)
		case name == "config":
			wrong("a file cannot name another one")
		case twice && !known[at].list:
			wrong("%s was set above", name)
		case value == "" && known[at].bool:
			values[name] = fileValue{fmt.Sprintf("%s line %d: %s", path, i+1, name), "true"}
		case value == "":
			wrong("%s has no value", name)
		case twice:
			values[name] = fileValue{before.name, before.value + "\n" + value}
		default:
			values[name] = fileValue{fmt.Sprintf("%s line %d: %s", path, i+1, name), value}
		}
	}
	return values, problems
}

// readSmall reads a regular file that is not too large.
func readSmall(path string) (string, error) {
	if info, err := os.Stat(path); err != nil { // before it is opened: opening a pipe blocks until there is a writer
		return "", err
	} else if info.Mode()&os.ModeType != 0 {
		return "", fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err == nil && len(b) > maxConfigFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxConfigFile)
	}
	return string(b), err
}

const checkIntro = `usage: katsubushi check-config [the daemon's flags and environment]

It reports everything that is wrong with them, with the -config file, and with the files and directories that they name, all at once. It opens
no port and asks no store. It exits with 0 if nothing is wrong. ` + "`katsubushi help all`" + ` lists the flags.
`

// checkConfig says what serve would say of the same flags, environment and file. It opens no port,
// asks no store and makes no directory.
func checkConfig(c *call) int {
	if code, ok := c.settled(c.stderr); !ok {
		return code
	}
	for _, note := range slices.Concat(c.notes, c.unknown) {
		fmt.Fprintln(c.stderr, "warning:", note)
	}
	if err := errors.Join(c.CheckRecord(c.Counters.FileDirectory()), server.CheckUnix(c.Sock)); err != nil {
		c.fail(err)
		return exitUsage
	}
	fmt.Fprintln(c.stdout, "nothing is wrong with these settings")
	return exitOK
}
