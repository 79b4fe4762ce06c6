package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A completed command is a subcommand with its flags.
type completed struct {
	subcommand
	flags []string // with "-", in order
}

// shells are the verbs of completion. Each script is given the daemon's flags, and the commands.
func shells() (verbs []verb) {
	for _, v := range []struct {
		shell  string
		script func(flags []string, all []completed) string
	}{{"bash", bashCompletion}, {"zsh", zshCompletion}, {"fish", fishCompletion}} {
		verbs = append(verbs, verb{synopsis: v.shell, run: func(c *call) int {
			if c.refused() {
				return exitUsage
			}
			var all []completed
			for _, s := range commands() {
				all = append(all, completed{s, s.flags()})
			}
			io.WriteString(c.stdout, v.script(theDaemon().flags(), all))
			return exitOK
		}})
	}
	return verbs
}

// flags returns the flags that matter for a subcommand, with "-", in order.
func (s *subcommand) flags() (flags []string) {
	for _, f := range s.own {
		flags = append(flags, "-"+f.name)
	}
	if s.settings != nil {
		some := s.some()
		for _, set := range s.settings(new(options)) {
			if len(some) == 0 || slices.Contains(some, set.name) {
				flags = append(flags, "-"+set.name)
			}
		}
	}
	slices.Sort(flags)
	return flags
}

// some returns the names of the settings that matter for a subcommand; none = all do.
func (s *subcommand) some() []string {
	some := slices.Clone(s.others)
	for _, t := range s.topics {
		some = append(some, flagsOfTopic(t)...)
	}
	for _, v := range s.verbs {
		some = append(some, v.settings...)
	}
	return some
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
			fmt.Fprintf(&verbs, "    %s) words='%s' ;;\n", c.name, strings.Join(names(c.verbs), " "))
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
			fmt.Fprintf(&verbs, "    %s) compadd -- %s ;;\n", c.name, strings.Join(names(c.verbs), " "))
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
			strings.ReplaceAll(c.summary, "'", `\'`))
		seen := "-n '__fish_seen_subcommand_from " + c.name + "'"
		if len(c.verbs) > 0 {
			fmt.Fprintf(&b, "complete -c katsubushi %s -a '%s'\n", seen, strings.Join(names(c.verbs), " "))
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
