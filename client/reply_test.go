package client

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/test/script"
)

//go:embed testdata/wrong.txt
var wrong string

// written is what stands for bytes in testdata: <7> is the value 7 with its length.
func written(text string) string {
	text = regexp.MustCompile(`<([^>]*)>`).ReplaceAllStringFunc(text, func(m string) string {
		return value(strings.Trim(m, "<>"))
	})
	return strings.NewReplacer(`\r`, "\r", `\n`, "\n", "LONG", strings.Repeat("x", 70<<10)).Replace(text)
}

// wrongAnswers are those of testdata/wrong.txt.
var wrongAnswers = func() (list []struct{ name, get, ids string }) {
	for line := range strings.SplitSeq(strings.ReplaceAll(wrong, " | -", " | "), "\n") {
		if w := strings.Split(written(line), " | "); len(w) == 3 && line[0] != '#' {
			list = append(list, struct{ name, get, ids string }{w[0], w[1], w[2]})
		}
	}
	return list
}()

func value(digits string) string { return fmt.Sprintf("VALUE id 0 %d\r\n%s\r\n", len(digits), digits) }

func readReply(m mode, want int, in []byte) (*reply, int, bool, error) {
	var r reply
	r.expect(m, []byte("VALUE id 0 "), want)
	n, done, err := r.feed(in)
	return &r, n, done, err
}

func TestReplyRefusesWrongAnswers(t *testing.T) {
	for _, w := range wrongAnswers {
		for m, in := range map[mode]string{byGet: w.get, byIDs: w.ids} {
			if in == "" {
				continue
			}
			if _, _, done, err := readReply(m, 3, []byte(in)); done || !errors.Is(err, ErrAnswer) {
				t.Errorf("%s, mode %d: done %v, error %v", w.name, m, done, err)
			}
		}
	}
}

// TestReplies: what is made of answers to a request for three ids, in testdata/replies.script.
func TestReplies(t *testing.T) {
	script.Run(t, "testdata/replies.script", func(t *testing.T, play func(script.Do)) {
		play(func(words []string) string {
			in := written(strings.Join(words[1:], " "))
			m := map[string]mode{"get": byGet, "ids": byIDs, "text": byText}[words[0]]
			r, n, done, err := readReply(m, 3, []byte(in+"VALUE"))
			switch {
			case err != nil:
				said := fmt.Sprintf("%d of %d bytes are read", n, len(in))
				for kind, is := range map[string]error{
					"an answer that cannot be": ErrAnswer, "not ready": ErrUnready, "refused": ErrRefused, "unknown": errUnknown,
				} {
					if errors.Is(err, is) {
						said += ": " + kind
					}
				}
				return said + "\n" + err.Error()
			case !done || n != len(in):
				return fmt.Sprintf("done %v after %d of %d bytes", done, n, len(in))
			}
			b := &batch{n: 3}
			if b.take(r); m == byText {
				return fmt.Sprint(textAt(b.texts, b.ends, 0), " ", textAt(b.texts, b.ends, 1), " ", textAt(b.texts, b.ends, 2))
			}
			ids, one := make([]uint64, 3), make([]uint64, 1)
			b.copyTo(ids, 0)
			for i, id := range ids {
				if b.copyTo(one, i); b.at(i) != id || one[0] != id {
					t.Errorf("%q: index %d is %d, %d and %d", in, i, id, b.at(i), one[0])
				}
			}
			return fmt.Sprint(ids)
		})
	})
}

// FuzzReply: whatever comes, and however it is cut, an accepted answer has exactly the ids that were
// asked for, none of them twice or 0.
func FuzzReply(f *testing.F) {
	for _, w := range wrongAnswers {
		if len(w.get) < 1000 {
			f.Add([]byte(w.get), uint8(byGet), uint8(3), uint8(5))
			f.Add([]byte(w.ids), uint8(byIDs), uint8(3), uint8(5))
		}
	}
	f.Add([]byte(value("9")+value("7")+value("8")+"END\r\n"), uint8(byGet), uint8(3), uint8(9))
	f.Add([]byte("VALUE id 0 3\r\na-b\r\nEND\r\n"), uint8(byText), uint8(1), uint8(9))
	f.Add([]byte("IDS 7 10 2\r\nIDS 3 1 1\r\nEND\r\nSERVER_ERROR x\r\n"), uint8(byIDs), uint8(3), uint8(1))
	f.Fuzz(func(t *testing.T, in []byte, m, want, cut uint8) {
		m, want = m%3, max(want, 1)
		whole, n, done, err := readReply(mode(m), int(want), in)
		if n > len(in) {
			t.Fatalf("read %d of %d bytes", n, len(in))
		}
		var r reply
		r.expect(mode(m), []byte("VALUE id 0 "), int(want))
		used, end := 0, 0
		var done2 bool
		var err2 error
		for end < len(in) && !done2 && err2 == nil {
			end = min(len(in), end+1+int(cut))
			var k int
			k, done2, err2 = r.feed(in[used:end])
			used += k
		}
		if done != done2 || (err == nil) != (err2 == nil) || err == nil && used != n {
			t.Fatalf("in one piece: %d %v %v; in pieces: %d %v %v", n, done, err, used, done2, err2)
		}
		if !done || err != nil || mode(m) == byText {
			return
		}
		b := &batch{n: int(want)}
		b.take(whole)
		ids := make([]uint64, want)
		b.copyTo(ids, 0)
		slices.Sort(ids)
		if ids[0] == 0 || len(slices.Compact(ids)) != int(want) {
			t.Fatalf("accepted %v", ids)
		}
	})
}

// TestTheLongestLine: a line of exactly maxLine bytes is read, and one that is longer is not waited for.
func TestTheLongestLine(t *testing.T) {
	for length, want := range map[int]string{maxLine - 1: "7777", maxLine: "7777", maxLine + 1: "too long"} {
		var r reply
		r.expect(byIDs, nil, 1)
		line := "SERVER_ERROR " + strings.Repeat("7", length-len("SERVER_ERROR \r\n")) + "\r\n"
		n, done, err := r.feed([]byte(line))
		read := errors.Is(err, ErrUnready)
		if done || err == nil || read != (want != "too long") || !strings.Contains(err.Error(), want) || n != length {
			t.Errorf("%d bytes: %d are read, %.100v", length, n, err)
		}
		r.expect(byIDs, nil, 1)
		n, done, err = r.feed([]byte(line[:min(length-1, maxLine)])) // its end has not come
		if wrong := length-1 >= maxLine; done || (err != nil) != wrong || (n > 0) != wrong {
			t.Errorf("%d bytes without the last: %d are read, %.100v", length, n, err)
		}
	}
}
