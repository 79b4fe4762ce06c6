package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

var errNoShell = errors.New("completion: one of bash, zsh and fish is needed")

// completions are the scripts of the shells. Each is given the flags and the commands with their verbs.
var completions = map[string]func(flags []string, all []subcommand) string{
	"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
}

func shellNames() []string { return []string{"bash", "zsh", "fish"} }

// completion prints a script that makes a shell complete commands, verbs and flags.
func completion(args []string, _ variables, stdout, stderr io.Writer) int {
	if len(args) != 1 || completions[args[0]] == nil {
		fmt.Fprintln(stderr, errNoShell)
		return exitUsage
	}
	var flags []string
	newFlags().VisitAll(func(f *flag.Flag) { flags = append(flags, "-"+f.Name) })
	io.WriteString(stdout, completions[args[0]](flags, commands()))
	return exitOK
}

func bashCompletion(flags []string, all []subcommand) string {
	var b strings.Builder
	b.WriteString(`# bash completion of katsubushi; put it into /usr/share/bash-completion/completions/katsubushi
_katsubushi() {
  local word=${COMP_WORDS[COMP_CWORD]} words=
  if [[ $word == -* ]]; then
    words='` + strings.Join(flags, " ") + `'
  elif [[ $COMP_CWORD == 1 ]]; then
    words='` + strings.Join(names(all), " ") + `'
  elif [[ $COMP_CWORD == 2 ]]; then
    case ${COMP_WORDS[1]} in
`)
	for _, c := range all {
		if len(c.verbs) > 0 {
			fmt.Fprintf(&b, "    %s) words='%s' ;;\n", c.name, strings.Join(c.verbs, " "))
		}
	}
	b.WriteString(`    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _katsubushi katsubushi
`)
	return b.String()
}

func zshCompletion(flags []string, all []subcommand) string {
	var b strings.Builder
	b.WriteString(`#compdef katsubushi
# zsh completion of katsubushi; put it into a directory of $fpath as _katsubushi
_katsubushi() {
  if [[ $PREFIX == -* ]]; then
    compadd -- ` + strings.Join(flags, " ") + `
  elif (( CURRENT == 2 )); then
    compadd -- ` + strings.Join(names(all), " ") + `
  elif (( CURRENT == 3 )); then
    case $words[2] in
`)
	for _, c := range all {
		if len(c.verbs) > 0 {
			fmt.Fprintf(&b, "    %s) compadd -- %s ;;\n", c.name, strings.Join(c.verbs, " "))
		}
	}
	b.WriteString(`    *) _files ;;
    esac
  else
    _files
  fi
}
compdef _katsubushi katsubushi
`)
	return b.String()
}

func fishCompletion(flags []string, all []subcommand) string {
	var b strings.Builder
	b.WriteString("# fish completion of katsubushi; put it into ~/.config/fish/completions/katsubushi.fish\n")
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c katsubushi -n __fish_use_subcommand -a %s -d '%s'\n", c.name, strings.ReplaceAll(c.help, "'", `\'`))
		if len(c.verbs) > 0 {
			fmt.Fprintf(&b, "complete -c katsubushi -n '__fish_seen_subcommand_from %s' -a '%s'\n", c.name, strings.Join(c.verbs, " "))
		}
	}
	for _, f := range flags {
		fmt.Fprintf(&b, "complete -c katsubushi -o %s\n", f[1:])
	}
	return b.String()
}

func names(all []subcommand) (list []string) {
	for _, c := range all {
		list = append(list, c.name)
	}
	return list
}
