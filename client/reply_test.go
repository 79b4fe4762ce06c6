package client

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/wrong.txt
var wrong string

// wrongAnswers are those of testdata/wrong.txt.
var wrongAnswers = func() (list []struct{ name, get, ids string }) {
	whole := strings.NewReplacer(`\r`, "\r", `\n`, "\n", "LONG", strings.Repeat("x", 70<<10), " | -", " | ")
	for line := range strings.SplitSeq(wrong, "\n") {
		line = regexp.MustCompile(`<([^>]*)>`).ReplaceAllStringFunc(line, func(m string) string {
			return value(strings.Trim(m, "<>"))
		})
		if w := strings.Split(whole.Replace(line), " | "); len(w) == 3 && line[0] != '#' {
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

func TestReplyReadsAnswers(t *testing.T) {
	for _, w := range []struct {
		mode mode
		in   string
		ids  string
	}{
		{byGet, value("7") + value("8") + value("9") + "END\r\n", "[7 8 9]"},
		{byGet, value("7") + value("9") + value("10") + "END\r\n", "[7 9 10]"},
		{byGet, value("9") + value("7") + value("8") + "END\r\n", "[9 7 8]"}, // two lanes
		{byGet, value("1") + value("18446744073709551615") + value("1573304824835870720") + "END\r\n",
			"[1 18446744073709551615 1573304824835870720]"},
		{byIDs, "IDS 7 1 3\r\nEND\r\n", "[7 8 9]"},
		{byIDs, "IDS 7 10 2\r\nIDS 3 1 1\r\nEND\r\n", "[7 17 3]"},
		{byIDs, "IDS 18446744073709551613 1 3\r\nEND\r\n",
			"[18446744073709551613 18446744073709551614 18446744073709551615]"},
	} {
		r, n, done, err := readReply(w.mode, 3, []byte(w.in+"more"))
		b := &batch{n: 3}
		b.take(r)
		ids := make([]uint64, 3)
		b.copyTo(ids, 0)
		if !done || err != nil || n != len(w.in) || fmt.Sprint(ids) != w.ids {
			t.Errorf("%q: read %d of it, done %v, error %v, ids %v", w.in, n, done, err, ids)
		}
		for i := range ids {
			if b.at(i) != ids[i] {
				t.Errorf("%q: index %d is %d and %d", w.in, i, b.at(i), ids[i])
			}
			one := make([]uint64, 1)
			if b.copyTo(one, i); one[0] != ids[i] {
				t.Errorf("%q: copied from index %d: %d", w.in, i, one[0])
			}
		}
	}
}

// TestReplyReadsTexts: the values of a sequence have different lengths. UUIDs are in no order.
func TestReplyReadsTexts(t *testing.T) {
	for in, want := range map[string]string{
		value("9") + value("10") + value("11") + "END\r\n": "[9 10 11]",
		value("b") + value("a") + value("c") + "END\r\n":   "[b a c]",
		value("b") + value("a") + value("b") + "END\r\n":   "",
		value("a") + value("a") + value("b") + "END\r\n":   "",
		value("a") + value("") + value("b") + "END\r\n":    "",
	} {
		r, _, done, err := readReply(byText, 3, []byte(in))
		if want == "" {
			if done || !errors.Is(err, ErrAnswer) {
				t.Errorf("%q: done %v, error %v", in, done, err)
			}
			continue
		}
		b := &batch{n: 3}
		b.take(r)
		var texts []string
		for i := range len(b.ends) {
			texts = append(texts, textAt(b.texts, b.ends, i))
		}
		if !done || err != nil || fmt.Sprint(texts) != want {
			t.Errorf("%q: done %v, error %v, texts %v", in, done, err, texts)
		}
	}
}

func TestReplyReadsRefusals(t *testing.T) {
	for in, want := range map[string]error{
		"SERVER_ERROR lease expired\r\n":                                  ErrUnready,
		value("7") + "SERVER_ERROR lease expired\r\n":                     ErrUnready,
		value("7") + value("8") + value("9") + "SERVER_ERROR expired\r\n": ErrUnready,
		"CLIENT_ERROR no such generator: id\r\n":                          ErrRefused,
	} {
		_, n, done, err := readReply(byGet, 3, []byte(in+"VALUE"))
		if n != len(in) || done || !errors.Is(err, want) {
			t.Errorf("%q: read %d of it, done %v, error %v", in, n, done, err)
		}
	}
	in := "IDS 7 1 2\r\nSERVER_ERROR id rate exceeded\r\n"
	if _, n, done, err := readReply(byIDs, 3, []byte(in)); n != len(in) || done || !errors.Is(err, ErrUnready) ||
		!strings.Contains(err.Error(), "id rate exceeded") {
		t.Errorf("%q: read %d of it, done %v, error %v", in, n, done, err)
	}
	if _, _, _, err := readReply(byIDs, 3, []byte("ERROR\r\n")); !errors.Is(err, errUnknown) {
		t.Errorf("ERROR to ids: %v", err)
	}
	if _, _, _, err := readReply(byGet, 3, []byte("ERROR\r\n")); !errors.Is(err, ErrAnswer) {
		t.Errorf("ERROR to get: %v", err)
	}
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
