package section

import "testing"

func TestReplace(t *testing.T) {
	const page = "a\n<!-- x: go test -->\n\nold\n<!-- end of x -->\nb\n"
	const want = "a\n<!-- x: go test -->\n\nnew\n\n<!-- end of x -->\nb\n"
	if got, ok := replace(page, "x", "\nnew\n"); !ok || got != want {
		t.Errorf("%q", got)
	}
	for _, name := range []string{"y", "", "end of x"} {
		if got, ok := replace(page, name, "new"); ok {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, ok := replace("<!-- x: go test -->\nold", "x", "new"); ok {
		t.Error("a part without an end is one")
	}
}
