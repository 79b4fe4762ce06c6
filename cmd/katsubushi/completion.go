package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

var errNoShell = errors.New("completion: one of bash, zsh and fish is needed")

// completions are the scripts of the shells. Each is given the daemon's flags, and the commands.
var completions = map[string]func(flags []string, all []completed) string{
	"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
}

func shellNames() []string { return []string{"bash", "zsh", "fish"} }

// A completed command is a subcommand with its flags.
type completed struct {
	subcommand
	flags []string // with "-", in order
}

// completion prints a script that makes a shell complete commands, verbs and flags.
func completion(args []string, _ variables, stdout, stderr io.Writer) int {
	if len(args) != 1 || completions[args[0]] == nil {
		fmt.Fprintln(stderr, errNoShell)
		return exitUsage
	}
	var flags []string
	newFlags().VisitAll(func(f *flag.Flag) { flags = append(flags, "-"+f.Name) })
	var all []completed
	for _, c := range commands() {
		own := flagsOfCommand(c)
		if c.name == "healthcheck" { // it finds the daemon by all that it was started with
			own = append(own, flags...)
		}
		all = append(all, completed{c, own})
	}
	io.WriteString(stdout, completions[args[0]](flags, all))
	return exitOK
}

var flagInHelp = regexp.MustCompile(`(?m)(?:^ +|[ \[])(-[a-z][a-z-]+)`)

// flagsOfCommand returns the flags that the help of a subcommand names, or of one of its verbs.
func flagsOfCommand(c subcommand) (flags []string) {
	if c.name == "completion" || c.name == "man" { // they have none
		return nil
	}
	for _, verb := range append([]string{""}, c.verbs...) {
		args := []string{verb, "-help"}
		if verb == "" {
			args = args[1:]
		}
		var help strings.Builder
		c.run(args, variables{}, &help, io.Discard)
		for _, m := range flagInHelp.FindAllStringSubmatch(help.String(), -1) {
			if m[1] != "-help" {
				flags = append(flags, m[1])
			}
		}
	}
	slices.Sort(flags)
	return slices.Compact(flags)
}

func bashCompletion(flags []string, all []completed) string {
	var b, verbs strings.Builder
	b.WriteString(`# bash completion of katsubushi; put it into /usr/share/bash-completion/completions/katsubushi
_katsubushi() {
  local word=${COMP_WORDS[COMP_CWORD]} words=
  if [[ $word == -* ]]; then
    case ${COMP_WORDS[1]} in
`)
	for _, c := range all {
		fmt.Fprintf(&b, "    %s) words='%s' ;;\n", c.name, strings.Join(c.flags, " "))
		if len(c.verbs) > 0 {
			fmt.Fprintf(&verbs, "    %s) words='%s' ;;\n", c.name, strings.Join(c.verbs, " "))
		}
	}
	fmt.Fprintf(&b, `    *) words='%s' ;;
    esac
  elif [[ $COMP_CWORD == 1 ]]; then
    words='%s'
  elif [[ $COMP_CWORD == 2 ]]; then
    case ${COMP_WORDS[1]} in
%s    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _katsubushi katsubushi
`, strings.Join(flags, " "), strings.Join(names(all), " "), &verbs)
	return b.String()
}

func zshCompletion(flags []string, all []completed) string {
	var b, verbs strings.Builder
	b.WriteString(`#compdef katsubushi
# zsh completion of katsubushi; put it into a directory of $fpath as _katsubushi
_katsubushi() {
  if [[ $PREFIX == -* ]]; then
    case $words[2] in
`)
	for _, c := range all {
		fmt.Fprintf(&b, "    %s) compadd -- %s ;;\n", c.name, strings.Join(c.flags, " "))
		if len(c.verbs) > 0 {
			fmt.Fprintf(&verbs, "    %s) compadd -- %s ;;\n", c.name, strings.Join(c.verbs, " "))
		}
	}
	fmt.Fprintf(&b, `    *) compadd -- %s ;;
    esac
  elif (( CURRENT == 2 )); then
    compadd -- %s
  elif (( CURRENT == 3 )); then
    case $words[2] in
%s    *) _files ;;
    esac
  else
    _files
  fi
}
compdef _katsubushi katsubushi
`, strings.Join(flags, " "), strings.Join(names(all), " "), &verbs)
	return b.String()
}

func fishCompletion(flags []string, all []completed) string {
	var b strings.Builder
	b.WriteString("# fish completion of katsubushi; put it into ~/.config/fish/completions/katsubushi.fish\n")
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c katsubushi -n __fish_use_subcommand -a %s -d '%s'\n", c.name,
			strings.ReplaceAll(c.help, "'", `\'`))
		seen := "-n '__fish_seen_subcommand_from " + c.name + "'"
		if len(c.verbs) > 0 {
			fmt.Fprintf(&b, "complete -c katsubushi %s -a '%s'\n", seen, strings.Join(c.verbs, " "))
		}
		for _, f := range c.flags {
			fmt.Fprintf(&b, "complete -c katsubushi %s -o %s\n", seen, f[1:])
		}
	}
	none := "-n 'not __fish_seen_subcommand_from " + strings.Join(names(all), " ") + "'"
	for _, f := range flags {
		fmt.Fprintf(&b, "complete -c katsubushi %s -o %s\n", none, f[1:])
	}
	return b.String()
}

func names[C interface{ called() string }](all []C) (list []string) {
	for _, c := range all {
		list = append(list, c.called())
	}
	return list
}
