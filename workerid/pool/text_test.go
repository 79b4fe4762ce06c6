package pool

import (
	"errors"
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	for want, got := range map[string]string{
		"1 17.4 1800000000000 t41-w10 30000 5000 0 1023": Meta{"17.4", 1800000000000, "t41-w10", 30000, 5000, 0,
			1023}.String(),
		"1 0 0 - -": Record{}.String(),
		"1 1800000030000 1799999999999 17.9 host/1/ABC": Record{1800000030000, 1799999999999, "17.9", "host/1/ABC"}.String(),
		"1 7 5 a.1 -":               Record{7, 5, "a.1", ""}.String(),
		"1 7 5 a.1 %2D":             Record{7, 5, "a.1", "-"}.String(),
		"1 a%20b%25 127.0.0.1:1121": Presence{"a b%", "127.0.0.1:1121"}.String(),
	} {
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// What is not exactly as we write it is refused: a guess could be a lower mark.
func TestStrangeTextsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "2 0 0 - -", "1", "1 0 0 -", "1 0 0 - - ", " 1 0 0 - -", "1 0  0 - -", "1 00 0 - -", "1 +1 0 - -", "1 -1 0 - -",
		"1 0x1 0 - -",
		"1 1000000000000000 0 - -", "1 0 0  -", "1 0 0 a-b -", "1 0 0 - ", "1 0 0 - %", "1 0 0 - %2", "1 0 0 - %41",
		"1 0 0 - %2d", "1 0 0 - a%",
		"1 0 0 - é", "1 0 0 - -\n", "1 0 0 " + strings.Repeat("a", maxToken+1) + " -",
		"1 0 0 - " + strings.Repeat("a", maxField+1),
	} {
		if r, err := ParseRecord(text); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%q: %+v, %v", text, r, err)
		}
	}
	for _, text := range []string{"", "1 - 0 - 1 1 0 1", "1 e 0 - 0 1 0 1", "1 e 0 - 1 1 2 1", "2 e 0 - 1 1 0 1",
		"1 e 0 - 1 1 0 1 1"} {
		if m, err := ParseMeta(text); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%q: %+v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "1", "1 a", "1 a b c", "2 a b"} {
		if p, err := ParsePresence(text); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
}

// Whatever can be read is written in the same way.
func FuzzTexts(f *testing.F) {
	f.Add("1 7 5 a.1 %2D")
	f.Add("1 17.4 1800000000000 t41-w10 30000 5000 0 1023")
	f.Add("1 a%20b 127.0.0.1:11212")
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := ParseRecord(text); err == nil && r.String() != text {
			t.Errorf("record %q is written as %q", text, r)
		}
		if m, err := ParseMeta(text); err == nil && m.String() != text {
			t.Errorf("meta %q is written as %q", text, m)
		}
		if p, err := ParsePresence(text); err == nil && p.String() != text {
			t.Errorf("presence %q is written as %q", text, p)
		}
	})
}
