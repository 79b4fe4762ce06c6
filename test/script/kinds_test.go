package script

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// kind plays the sections of a kind, and returns their names.
func kind(t *testing.T, path, kind string) (played []string) {
	RunAs(t, path, kind, func(t *testing.T, play func(Do)) {
		played = append(played, filepath.Base(t.Name()))
		n := 0
		play(func(words []string) string {
			for i, word := range words {
				words[i] = strings.ReplaceAll(word, "KIND", kind)
			}
			switch words[0] {
			case "say", "say-all":
				return strings.Join(words[1:], "\n")
			case "tell":
				return strings.Join(words[1:], " ")
			case "kind":
				return kind + "\n"
			case "count":
				n = min(n+1, 3)
				return fmt.Sprint(n)
			case "tail":
				return "x\n\n" + words[1]
			}
			return ""
		})
	})
	return played
}

func TestKinds(t *testing.T) {
	for of, want := range map[string]string{"one": "what_both_say what_one_alone_says",
		"two": "what_both_say what_two_alone_says", "": "one another_one_[two]"} {
		t.Run(of, func(t *testing.T) {
			path := map[bool]string{true: "testdata/plain.script", false: "testdata/kinds.script"}[of == ""]
			if got := strings.Join(kind(t, path, of), " "); got != want {
				t.Errorf("it plays %q", got)
			}
		})
	}
}

// What kinds write one after another is the file, whichever answers stood there.
func TestWrite(t *testing.T) {
	for name, kinds := range map[string][]string{"kinds": {"one", "two", "one"}, "plain": {""}} {
		for _, other := range []string{"", "\tone | no\n", "\tno\n\tyes\n", "\ttwo | one\n\tone\n"} {
			written(t, "testdata/"+name+".script", other, kinds)
		}
	}
}

func written(t *testing.T, path, other string, kinds []string) {
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func(was bool) { *update = was }(*update)
	*update = true
	want = bytes.Replace(want, []byte("until count\n\t3"), []byte("count\n\t1"), 1)
	path = filepath.Join(t.TempDir(), "written.script")
	if err := os.WriteFile(path, answers.ReplaceAll(want, []byte(other)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, of := range kinds {
		t.Run("", func(t *testing.T) { kind(t, path, of) }) // at whose end it is written
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n%s", err, got)
	}
}

var answers = regexp.MustCompile(`(?m)^\t.*\n`)
