package page

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/katsubushi/katsubushi/v3/docs"
)

// headings are the anchors of the runbook that is served.
func headings(t *testing.T) map[string]bool {
	t.Helper()
	list := map[string]bool{}
	for _, m := range regexp.MustCompile(`<h\d id="([^"]+)"`).FindAllStringSubmatch(string(runbook(docs.Runbook)), -1) {
		if list[m[1]] {
			t.Errorf("two headings are %s", m[1])
		}
		list[m[1]] = true
	}
	return list
}

// TestRunbookPage: everything that the runbook says is there, every link leads somewhere, and no Markdown is left.
func TestRunbookPage(t *testing.T) {
	there, page := headings(t), string(runbook(docs.Runbook))
	for _, m := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if m[1] != "./" && !there[strings.TrimPrefix(m[1], "#")] {
			t.Errorf("a link leads to %s", m[1])
		}
	}
	_, body, _ := strings.Cut(page, "</style>")
	shown := regexp.MustCompile(`<code>.*?</code>|(?s)<pre>.*?</pre>`).ReplaceAllString(body, "")
	if left := regexp.MustCompile("\\*\\*|`|\\]\\(|\\|--|<p>[#|>-]|<!--").FindString(shown); left != "" {
		t.Errorf("Markdown is left: %q", left)
	}
	if n := len(there); n < 30 || strings.Count(body, "<dt>") < 30 {
		t.Errorf("%d headings", n)
	}
	words := func(s string) string { return regexp.MustCompile(`[^A-Za-z]+`).ReplaceAllString(s, " ") }
	last := regexp.MustCompile(`[A-Za-z]+ [A-Za-z]+ [A-Za-z]+`).FindAllString(words(docs.Runbook), -1)
	body = words(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " "))
	if want := last[len(last)-1]; !strings.Contains(body, want) {
		t.Errorf("its end is not there: %q", want)
	}
}

// TestRunbookEscapes: Markdown of each sort with hostile texts.
func TestRunbookEscapes(t *testing.T) {
	for in, want := range map[string]string{
		"## A <b>":                            `<h2 id="a-b">A &lt;b&gt;</h2>`,
		"a `<b>` **<i>** [<u>](x#y)":          `<p>a <code>&lt;b&gt;</code> <strong>&lt;i&gt;</strong> &lt;u&gt; (x)</p>`,
		"[a](#b\"<)":                          `<p><a href="#b&#34;&lt;">a</a></p>`,
		"| x | y |\n|---|---|\n| `a` | <b> |": `<dl><dt><code>a</code></dt><dd>&lt;b&gt;</dd></dl>`,
		"```sh\na <b>\n```":                   `<pre>a &lt;b&gt;</pre>`,
	} {
		var w writer
		if w.block(in); string(w.b) != want {
			t.Errorf("%q becomes %s, want %s", in, w.b, want)
		}
	}
}

// TestRunbookIsServed: to browsers as a page under the same policy, and as it is written to others.
func TestRunbookIsServed(t *testing.T) {
	for accept, want := range map[string]string{browser: `<h3 id="katsubushinotready">`, "": "### KatsubushiNotReady"} {
		r := httptest.NewRequest("GET", "/runbook", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		Runbook().ServeHTTP(w, r)
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(w.Body.String(), want) || (policy == Policy()) != (accept != "") ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("Accept: %q: %v", accept, w.Header())
		}
	}
}
