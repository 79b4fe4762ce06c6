package page

import (
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const (
	silent    = `document.getElementById("silent").innerText`
	clockTime = `\b([01]\d|2[0-3])(:[0-5]\d){2}\b`
)

// TestGone: the page of a daemon that is gone keeps what it shows and says since when; it goes on when another one is
// there, and says that it is another one.
func TestGone(t *testing.T) {
	port, web, dir := freePort(t), freePort(t), t.TempDir()
	args := []string{"-worker-id", "904", "-state-dir", dir, "-state-any-disk", "-name", "sessions uuid7"}
	d := startAt(t, port, web, args...)
	b := newTab(t, d.url)
	b.look(1240, "light")
	b.open(d.url)
	before := eval[string](b, asOf)
	await(t, "the page refreshes itself", func() bool { return eval[string](b, asOf) != before })
	if got := eval[string](b, silent); got != "" {
		t.Errorf("while it answers: %s", got)
	}
	d.cmd.Process.Kill()
	d.cmd.Wait()
	await(t, "it is said that the daemon is gone", func() bool { return eval[string](b, silent) != "" })
	last := eval[string](b, silent)
	if !regexp.MustCompile("^No answer since "+clockTime).MatchString(last) ||
		!strings.Contains(eval[string](b, "document.title"), "no answer since") {
		t.Errorf("it says %s", last)
	}
	if rows := eval[string](b, `document.getElementById("named").innerText`); !strings.Contains(rows, "sessions") {
		t.Errorf("what was shown is gone: %s", rows)
	}
	requests := func() int {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.requests
	}
	asked := requests()
	await(t, "it asks again", func() bool { return requests() >= asked+2 })
	if got := eval[string](b, silent); got != last {
		t.Errorf("it said %s, and now %s", last, got)
	}
	startAt(t, port, web, args...)
	await(t, "it goes on, and says that the daemon is another one", func() bool {
		return regexp.MustCompile("^The daemon was restarted at " + clockTime).MatchString(eval[string](b, silent))
	})
	await(t, "the pill is that of the new one", func() bool {
		return strings.Contains(eval[string](b, `document.querySelector(".pill").className`), "good")
	})
	if eval[bool](b, `document.body.classList.contains("stale")`) {
		t.Error("what is fresh looks old")
	}
	b.readable(40)
	b.shot("restarted")
	for _, p := range b.taken() { // of the browser itself, about requests without an answer
		if !strings.Contains(p, "network") && !strings.Contains(p, "ERR_") {
			t.Error(p)
		}
	}
	b.run(chromedp.Reload(), chromedp.WaitReady("footer", chromedp.ByQuery))
	if got := eval[string](b, silent); got != "" {
		t.Errorf("a page of the new daemon says %s", got)
	}
}
