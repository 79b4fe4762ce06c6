package main

import (
	"flag"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// newFlags returns the daemon's flags with their defaults, to be described.
func newFlags() *flag.FlagSet {
	daemon := theDaemon()
	c := &call{command: daemon, ownValues: daemon.values}
	if err := c.read(nil); err != nil {
		panic(err) // there are no arguments
	}
	return c.flags
}

// manual prints the manual page, made from the tables of commands and flags, in the man(7) language.
func manual(c *call) int {
	if c.refused() {
		return exitUsage
	}
	var b strings.Builder
	b.WriteString(`.TH KATSUBUSHI 1 "" "katsubushi ` + version + `" "User Commands"
.SH NAME
katsubushi \- unique ids over memcached's and Redis's protocols
.SH SYNOPSIS
.B katsubushi
.RI [ flags ]
`)
	for _, c := range commands() {
		fmt.Fprintf(&b, ".br\n.B katsubushi %s\n%s\n", roff(c.name), roff(c.synopsis))
	}
	b.WriteString(`.SH DESCRIPTION
Without a command, katsubushi serves: any memcached client sends
.B get id
and gets a unique, roughly time-ordered 64-bit number.
.SH COMMANDS
`)
	for _, c := range commands() {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s", roff(c.name), roff(c.summary))
		if len(c.verbs) > 0 {
			fmt.Fprintf(&b, ": %s", roff(strings.Join(names(c.verbs), ", ")))
		}
		b.WriteByte('\n')
	}
	sets := byTopic(newFlags())
	b.WriteString(".SH FLAGS\nThe environment's names are in brackets.\n")
	for _, topic := range topics {
		fmt.Fprintf(&b, ".SS %s\n", roff(topic))
		sets[topic].VisitAll(func(f *flag.Flag) {
			value, help := flag.UnquoteUsage(f)
			fmt.Fprintf(&b, ".TP\n.B \\-%s\n", roff(strings.TrimSpace(f.Name+" "+value)))
			if f.DefValue != "" && f.DefValue != "false" {
				help += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(&b, "%s\n", roff(help))
		})
	}
	b.WriteString(`.SH FILES
.TP
.I FILE
of
.BR \-config :
one flag on each line, without the dash, and its value behind a space or =; a line that begins with # is a
comment. A flag beats the
environment, the environment beats the file.
.SH EXIT STATUS
.TP
.B 0
after SIGTERM, SIGINT or SIGQUIT
.TP
.B 1
it could not start or go on
.TP
.B 2
a setting is wrong; all of them are printed
.SH SEE ALSO
https://github.com/katsubushi/katsubushi
`)
	io.WriteString(c.stdout, b.String())
	return exitOK
}

var nonASCII = regexp.MustCompile(`[^\x00-\x7F]`)

// roff escapes text such that it has no meaning to the formatter.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	text = nonASCII.ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprintf(`\[u%04X]`, []rune(s)[0]) })
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
