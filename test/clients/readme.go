//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// around is what a snippet needs to be a program that prints its id, by the program's file or its ending.
var around = map[string]struct{ before, after string }{
	".py":           {"", `print("get", id)`},
	".go":           {goProgram(`"context"`, `"github.com/katsubushi/katsubushi/v3/client"`), goEnd},
	"gomemcache.go": {goProgram(`"strconv"`, `"github.com/bradfitz/gomemcache/memcache"`), goEnd},
	".rb":           {"", `puts "get #{id}"`},
	".php":          {"<?php\n", `echo "get $id\n";`},
	".mjs":          {"", "console.log(`get ${id}`);"},
	".exs":          {"", `IO.puts("get " <> id)`},
	".rs": {"use std::io::{BufRead, BufReader, Write};\nuse std::net::TcpStream;\n\n" +
		"fn main() -> Result<(), Box<dyn std::error::Error>> {\n", "    println!(\"get {id}\");\n    Ok(())\n}"},
	".cs": {"using System;\nusing System.IO;\nusing System.Net.Sockets;\nusing System.Text;\n\nclass Snippet {\n" +
		"static void Main() {\n", `Console.WriteLine("get " + id);` + "\n}\n}"},
}

// goProgram is what a snippet for Go needs before it, with two more imports.
func goProgram(std, other string) string {
	return `//go:build ignore

package main // in this source tree, but no part of it

import (
	` + std + `
	"fmt"
	"os"

	` + other + `
)

func main() {
	if err := ask(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask() error {
`
}

const goEnd = `	fmt.Println("get", id)
	return err
}
`

// writeSnippet makes a program of the language's lines in docs/CLIENTS.md. All that is changed in them is
// the port.
func (r *runner) writeSnippet(s *setup, file string, port int) error {
	content, err := os.ReadFile(filepath.Join(r.root, "docs/CLIENTS.md"))
	if err != nil {
		return err
	}
	ending := filepath.Ext(file)
	language := map[string]string{".py": "python", ".rb": "ruby", ".mjs": "js", ".exs": "elixir", ".rs": "rust",
		".cs": "csharp"}[ending]
	if language == "" {
		language = ending[1:]
	}
	nth := 0
	for i := range readme {
		if readme[i].name == s.name {
			break
		} else if readme[i].language == s.language {
			nth++
		}
	}
	lines, err := fenced(string(content), language, nth)
	if err != nil {
		return err
	}
	if n := strings.Count(lines, "11212"); n != 1 {
		return fmt.Errorf("this page, %s: the port is there %d times", s.language, n)
	}
	lines = strings.Replace(lines, "11212", strconv.Itoa(port), 1)
	with, ok := around[filepath.Base(file)]
	if !ok {
		with = around[ending]
	}
	return os.WriteFile(file, []byte(with.before+lines+with.after+"\n"), 0o644)
}

// fenced is what stands in the nth block of a language.
func fenced(markdown, language string, nth int) (string, error) {
	parts := strings.Split(markdown, "\n```"+language+"\n")
	if len(parts) < nth+2 {
		return "", fmt.Errorf("%d blocks of %s, want another", len(parts)-1, language)
	}
	lines, _, ok := strings.Cut(parts[nth+1], "\n```\n")
	if !ok {
		return "", fmt.Errorf("the block of %s has no end", language)
	}
	return lines + "\n", nil
}
