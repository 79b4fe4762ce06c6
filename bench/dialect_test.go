package main

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/script"
	"github.com/katsubushi/katsubushi/v3/test/unique"
)

// dialects are those of testdata/answers.script, by name.
var dialects = map[string]func(idCheck) dialect{
	"text":     func(c idCheck) dialect { return newText("id", 1, c) },
	"multi":    func(c idCheck) dialect { return newText("id", 5, c) },
	"sequence": func(c idCheck) dialect { return newText("orders", 2, c) },
	"ulid":     func(c idCheck) dialect { return newText("ulid", 1, c) },
	"uuid":     func(c idCheck) dialect { return newText("uuid7", 1, c) },
	"meta":     func(c idCheck) dialect { return newMeta(c) },
	"incr":     func(c idCheck) dialect { return respIncr("id", c) },
	"get":      func(c idCheck) dialect { return respGet("id", c) },
	"binary":   func(c idCheck) dialect { return binaryDialect{c} },
	"http":     func(c idCheck) dialect { return httpDialect{c} },
}

// feed gives a dialect a stream in pieces, as the loops do, and returns how many answers it saw and
// what it left.
func feed(d dialect, pieces []string) (answers int, rest string, err error) {
	var p progress
	for _, piece := range pieces {
		in := rest + piece
		used, n, err := d.check(&p, []byte(in))
		if answers += n; err != nil {
			return answers, in[used:], err
		}
		rest = in[used:]
	}
	if p.item > 0 {
		rest = "(between items)" + rest
	}
	return answers, rest, nil
}

// TestAnswers: what clients make of answers, in testdata/answers.script. Behind a dialect stand the bytes of an
// answer or more, as Go writes them.
func TestAnswers(t *testing.T) {
	script.Run(t, "testdata/answers.script", func(t *testing.T, play func(script.Do)) {
		play(func(words []string) string {
			stream, err := strconv.Unquote(`"` + strings.Join(words[1:], " ") + `"`)
			if err != nil {
				t.Fatal(err)
			}
			n, rest, err := feed(dialects[words[0]](idCheck{}), []string{stream})
			switch {
			case err != nil:
				return fmt.Sprintf("%d answers, %v", n, err)
			case rest != "":
				return fmt.Sprintf("%d answers, and %q is left", n, rest)
			}
			good(t, words[0], stream, n)
			return fmt.Sprint(n, " answers")
		})
	})
}

// good checks what is so of all streams of good answers.
func good(t *testing.T, name, stream string, answers int) {
	made := dialects[name]
	cut := func(pieces ...string) { // however it is cut
		t.Helper()
		for _, ids := range []idCheck{{}, {seen: &unique.Set{}}} {
			if n, rest, err := feed(made(ids), pieces); err != nil || n != answers || rest != "" {
				t.Fatalf("%q: %d answers of %d, left %q, error %v", pieces, n, answers, rest, err)
			}
		}
	}
	cut(strings.Split(stream, "")...)
	for i := range stream {
		cut(stream[:i], stream[i:])
		// Of a head of HTTP only some bytes matter, and the cas of a binary answer may be anything.
		const cas = "casvalue"
		if at := strings.LastIndex(stream[:min(i+len(cas), len(stream))], cas); name == "http" || at >= 0 && i < at+len(cas) {
			continue
		}
		wrong := stream[:i] + "#" + stream[i+1:]
		if n, rest, err := feed(made(idCheck{}), []string{wrong}); err == nil && n == answers && rest == "" {
			t.Errorf("%s: byte %d of %q was not looked at", name, i, wrong)
		}
	}
	d := made(idCheck{seen: &unique.Set{}})
	feed(d, []string{stream})
	if _, _, err := feed(d, []string{stream}); err == nil || !strings.Contains(err.Error(), "duplicate id") {
		t.Errorf("%s: a duplicate was not noticed: %v", name, err)
	}
	d = made(idCheck{})
	in := []byte(stream)
	if n := testing.AllocsPerRun(100, func() {
		var p progress
		d.check(&p, in)
	}); n > 1 { // the progress escapes
		t.Errorf("%s: %v allocations", name, n)
	}
}

func TestBinaryRequestsAreNumbered(t *testing.T) {
	d := binaryDialect{}
	batch := d.request(3)
	var p progress
	d.stamp(batch, &p)
	d.stamp(batch, &p)
	for i := range 3 {
		if got := binary.BigEndian.Uint32(batch[i*binRequest+binOpaque:]); got != uint32(4+i) {
			t.Errorf("request %d has opaque %d", i, got)
		}
	}
}

// FuzzCheck feeds any bytes at all: however they are cut, the verdict is the same, and what is left
// over stays short.
func FuzzCheck(f *testing.F) {
	names := slices.Sorted(maps.Keys(dialects))
	text, err := os.ReadFile("testdata/answers.script")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, quoted, _ := strings.Cut(strings.TrimSpace(line), " ")
		if stream, err := strconv.Unquote(`"` + quoted + `"`); err == nil && slices.Contains(names, name) {
			f.Add(uint8(slices.Index(names, name)), []byte(stream), uint64(len(stream)))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, in []byte, seed uint64) {
		name := names[int(which)%len(names)]
		made := dialects[name]
		rng := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for s := string(in); s != ""; {
			n := 1 + rng.IntN(len(s))
			pieces, s = append(pieces, s[:n]), s[n:]
		}
		n1, rest1, err1 := feed(made(idCheck{}), []string{string(in)})
		n2, rest2, err2 := feed(made(idCheck{}), pieces)
		if n1 != n2 || (err1 == nil) != (err2 == nil) || (err1 == nil && rest1 != rest2) {
			t.Fatalf("%s: whole: %d, %q, %v; cut as %q: %d, %q, %v", name, n1, rest1, err1, pieces, n2, rest2, err2)
		}
		if err1 == nil && len(rest1) > maxItem {
			t.Fatalf("%s: %d bytes left over", name, len(rest1))
		}
	})
}
