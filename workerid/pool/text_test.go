package pool

import "testing"

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
