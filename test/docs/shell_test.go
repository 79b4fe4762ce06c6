package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// words cuts a line of the shell into simple commands, each a list of words without their quotes.
// What is redirected, and comments, are left out. Substitutions are commands of their own;
// expansions stay as they are.
func words(text string) (commands [][]string) {
	var command []string
	var word strings.Builder
	begun, redirected := false, false
	endWord := func() {
		if begun && !redirected {
			command = append(command, word.String())
		}
		if begun {
			redirected = false
		}
		begun = false
		word.Reset()
	}
	endCommand := func() {
		endWord()
		if len(command) > 0 {
			commands = append(commands, command)
		}
		command, redirected = nil, false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\' && i+1 < len(text):
			if i++; text[i] != '\n' {
				word.WriteByte(text[i])
				begun = true
			}
		case c == '\'' || c == '"':
			end := strings.IndexByte(text[i+1:], c)
			if end < 0 {
				end = len(text) - i - 1
			}
			word.WriteString(text[i+1 : i+1+end])
			begun = true
			i += end + 1
		case c == '#' && !begun:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '<' || c == '>':
			if digits := word.String(); begun && strings.Trim(digits, "0123456789") == "" { // 2>&1
				word.Reset()
				begun = false
			}
			endWord()
			for i+1 < len(text) && strings.IndexByte("<>&", text[i+1]) >= 0 {
				i++
			}
			redirected = true
		case strings.IndexByte("\n;|&()`", c) >= 0:
			endCommand()
		case c == ' ' || c == '\t':
			endWord()
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	endCommand()
	return commands
}

var assignment = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)

// ours returns what follows our program's name in a simple command, if it is that program that
// runs: here, in a container, or under a program that runs others.
func ours(command []string) (args []string, ok bool) {
	for len(command) > 0 &&
		(assignment.MatchString(command[0]) ||
			slices.Contains([]string{"sudo", "exec", "env", "nohup", "time", "if", "while", "until", "!", "then", "do", "-E"},
				command[0])) {
		command = command[1:]
	}
	if len(command) == 0 {
		return nil, false
	}
	at := -1
	switch name := command[0][strings.LastIndexByte(command[0], '/')+1:]; name {
	case "katsubushi":
		at = 0
	case "docker", "podman", "nerdctl":
		if len(command) > 1 && command[1] == "run" {
			at = slices.IndexFunc(command, func(w string) bool { return image.MatchString(w) })
		}
	case "kubectl", "systemd-run", "ssh":
		at = slices.IndexFunc(command, func(w string) bool {
			return w == "katsubushi" || strings.HasSuffix(w, "/katsubushi")
		})
		if at > 0 && name == "kubectl" && command[at-1] != "--" {
			at = -1
		}
	}
	if at < 0 {
		return nil, false
	}
	args = command[at+1:]
	if i := slices.Index(args, "--"); i >= 0 { // katsubushi run ... -- COMMAND
		args = args[:i]
	}
	return args, true
}

var image = regexp.MustCompile(`^([a-z0-9.-]+(:[0-9]+)?/)*katsubushi(:[A-Za-z0-9._-]+)?$`)

func TestWords(t *testing.T) {
	text := "A=1 katsubushi -worker-id 1 -generator 'orders sequence' >log 2>&1 & # katsubushi -not\n" +
		"docker run -d --name ids ghcr.io/x/katsubushi:3 -worker-id 2 | grep katsubushi; kubectl exec ids-0 -- katsubushi " +
		"inspect \\\n  -json 1\n" +
		"systemctl restart katsubushi && sudo ./katsubushi run -store URL -- sleep -x $(katsubushi man)"
	var got []string
	for _, c := range words(text) {
		if args, ok := ours(c); ok {
			got = append(got, strings.Join(args, "|"))
		}
	}
	want := []string{"-worker-id|1|-generator|orders sequence", "-worker-id|2", "inspect|-json|1", "run|-store|URL", "man"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
