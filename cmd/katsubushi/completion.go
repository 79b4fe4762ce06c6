package main

import (
	"fmt"
	"io"
	"maps"
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

// flagWords returns the words that flags with a choice may be, by name with "-".
func flagWords() map[string][]string {
	words := map[string][]string{}
	for _, s := range everySetting() {
		words["-"+s.name] = s.set.words
	}
	for _, s := range commands() {
		for _, f := range s.own {
			words["-"+f.name] = f.words
		}
	}
	maps.DeleteFunc(words, func(_ string, w []string) bool { return len(w) == 0 })
	return words
}

// cases writes a line of a shell's case for each flag that has a choice, for the flags of each subcommand, for the
// verbs of each, and for each verb with a choice behind its first word.
func cases(all []completed, line string) (values, flags, verbs, kinds string) {
	words := flagWords()
	for _, flag := range slices.Sorted(maps.Keys(words)) {
		values += fmt.Sprintf(line, flag, strings.Join(words[flag], " "))
	}
	for _, c := range all {
		flags += fmt.Sprintf(line, c.name, strings.Join(c.flags, " "))
		if len(c.verbs) > 0 {
			verbs += fmt.Sprintf(line, c.name, strings.Join(names(c.verbs), " "))
		}
		for _, v := range c.verbs {
			if v.kinds != nil {
				kinds += fmt.Sprintf(line, "'"+c.name+" "+v.called()+"'", strings.Join(v.kinds, " "))
			}
		}
	}
	return values, flags, verbs, kinds
}

func bashCompletion(flags []string, all []completed) string {
	values, ofCommands, verbs, kinds := cases(all, "    %s) words='%s' ;;\n")
	return fmt.Sprintf(`# bash completion of katsubushi; put it into /usr/share/bash-completion/completions/katsubushi
_katsubushi() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${COMP_WORDS[COMP_CWORD-2]}
  fi
  case ${before/#--/-} in
%s  esac
  if [[ -n $words ]]; then
    :
  elif [[ $word == -* ]]; then
    case ${COMP_WORDS[1]} in
%s    *) words='%s' ;;
    esac
    [[ $word != --* || -z $words ]] || words=-${words// -/ --}
  elif [[ $COMP_CWORD == 1 ]]; then
    words='%s'
  elif [[ $COMP_CWORD == 2 ]]; then
    case ${COMP_WORDS[1]} in
%s    esac
  elif [[ $COMP_CWORD == 4 ]]; then
    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
%s    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _katsubushi katsubushi
`, values, ofCommands, strings.Join(flags, " "), strings.Join(names(all), " "), verbs, kinds)
}

func zshCompletion(flags []string, all []completed) string {
	values, ofCommands, verbs, kinds := cases(all, "    %s) offered=(%s) ;;\n")
	return fmt.Sprintf(`#compdef katsubushi
# zsh completion of katsubushi; put it into a directory of $fpath as _katsubushi
_katsubushi() {
  local before=$words[CURRENT-1]
  local -a offered
  if [[ $PREFIX == -*=* ]]; then
    before=${PREFIX%%%%=*}
    compset -P '*='
  fi
  case ${before/#--/-} in
%s  esac
  if (( $#offered )); then
    :
  elif [[ $PREFIX == -* ]]; then
    case $words[2] in
%s    *) offered=(%s) ;;
    esac
    [[ $PREFIX != --* ]] || offered=(-${^offered})
  elif (( CURRENT == 2 )); then
    offered=(%s)
  elif (( CURRENT == 3 )); then
    case $words[2] in
%s    esac
  elif (( CURRENT == 5 )); then
    case "$words[2] $words[3]" in
%s    esac
  fi
  if (( $#offered )); then
    compadd -- $offered
  elif [[ $PREFIX != -* ]]; then
    _files
  fi
}
compdef _katsubushi katsubushi
`, values, ofCommands, strings.Join(flags, " "), strings.Join(names(all), " "), verbs, kinds)
}

func fishCompletion(flags []string, all []completed) string {
	var b strings.Builder
	b.WriteString("# fish completion of katsubushi; put it into ~/.config/fish/completions/katsubushi.fish\n")
	words := flagWords()
	offer := func(when string, flags []string) {
		for _, f := range flags {
			fmt.Fprintf(&b, "complete -c katsubushi -n '%s' -o %s -l %s", when, f[1:], f[1:])
			if words[f] != nil {
				fmt.Fprintf(&b, " -xa '%s'", strings.Join(words[f], " "))
			}
			b.WriteByte('\n')
		}
	}
	for _, c := range all {
		fmt.Fprintf(&b, "complete -c katsubushi -n __fish_use_subcommand -a %s -d '%s'\n", c.name,
			strings.ReplaceAll(c.summary, "'", `\'`))
		seen := "__fish_seen_subcommand_from " + c.name
		if len(c.verbs) > 0 {
			fmt.Fprintf(&b, "complete -c katsubushi -n '%s' -a '%s'\n", seen, strings.Join(names(c.verbs), " "))
		}
		for _, v := range c.verbs {
			if v.kinds != nil {
				fmt.Fprintf(&b, "complete -c katsubushi -n '%s; and __fish_seen_subcommand_from %s' -a '%s'\n", seen, v.called(),
					strings.Join(v.kinds, " "))
			}
		}
		offer(seen, c.flags)
	}
	offer("not __fish_seen_subcommand_from "+strings.Join(names(all), " "), flags)
	return b.String()
}

func names[C interface{ called() string }](all []C) (list []string) {
	for _, c := range all {
		list = append(list, c.called())
	}
	return list
}
