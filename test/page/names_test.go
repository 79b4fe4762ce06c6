package page

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// phone is the width of a small phone's window.
const phone = 360

// tallest is how high the page of 1,000 names may be on a phone, in pixels.
const tallest = 6000

// manyNames starts a daemon with so many names, of which one sequence has ended.
func manyNames(t *testing.T, n int) *daemon {
	t.Helper()
	lines := []string{"closed sequence start=1 max=1 batch=1", "orders sequence start=1"}
	for i := range n - len(lines) {
		lines = append(lines, fmt.Sprintf("shop%04d:{user}.sessions uuid7", i))
	}
	file := filepath.Join(t.TempDir(), "names")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d := start(t, "-worker-id", "903", "-state-dir", t.TempDir(), "-state-any-disk", "-names", file)
	c, err := net.Dial("tcp", d.memcached)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	for r := bufio.NewReader(c); ; { // until the sequence has ended
		io.WriteString(c, "get closed\r\n")
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "SERVER_ERROR") {
			return d
		}
		r.ReadString('\n')
		r.ReadString('\n')
	}
}

// TestManyNames: a thousand names on a phone. The page stays short, with and without JavaScript; one finds a name,
// sorts, turns the page with the keyboard, and a refresh keeps what was found.
func TestManyNames(t *testing.T) {
	d := manyNames(t, 1000)
	b := newTab(t, d.url)
	for _, scheme := range []string{"light", "dark"} {
		b.look(phone, scheme)
		b.open(d.url)
		b.readable(40)
		b.fits(phone)
		b.shot("names-phone-" + scheme)
	}
	height := eval[int](b, "document.documentElement.scrollHeight")
	t.Logf("1,000 names on a phone of %d pixels: %d pixels", phone, height)
	if height > tallest {
		t.Errorf("the page is %d pixels high, and may be %d", height, tallest)
	}
	const first = `document.querySelector("#named tbody th .state").textContent`
	if got := eval[string](b, first); got != "closed" {
		t.Errorf("the first name is %s, want the one that only refuses", got)
	}
	b.look(1240, "light")
	b.open(d.url)
	b.readable(40)
	b.fits(1240)
	b.shot("names")
	b.named()
	b.run(chromedp.Focus("#q", chromedp.ByQuery), chromedp.KeyEvent("SHOP07"))
	if got := b.tabs(2); !slices.Equal(got, []string{"sort", "Show"}) {
		t.Errorf("after the search Tab goes to %q", got)
	}
	b.run(chromedp.SetValue("#sort", "name", chromedp.ByQuery), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible(`#q:not([value=""])`, chromedp.ByQuery)) // which the page before has not
	if got := eval[string](b, first); got != "shop0700:{user}.sessions" {
		t.Errorf("the first name found is %s", got)
	}
	b.run(chromedp.Focus(`a[rel="next"]`, chromedp.ByQuery), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible(`a[rel="prev"]`, chromedp.ByQuery))
	before := eval[string](b, asOf)
	await(t, "the page refreshes itself", func() bool { return eval[string](b, asOf) != before })
	if got := eval[string](b, first); got != "shop0720:{user}.sessions" {
		t.Errorf("after a refresh the first name is %s", got)
	}
	b.clean()

	b.run(emulation.SetScriptExecutionDisabled(true))
	b.look(phone, "light")
	b.open(d.url + "?q=shop0990&sort=rate")
	var rows string
	b.run(chromedp.Text("#named", &rows, chromedp.ByQuery))
	if !strings.Contains(rows, "shop0990:{user}.sessions") || !strings.Contains(rows, "1–1 of 1 that fit, 1,000 in all") {
		t.Errorf("without JavaScript: %s", rows)
	}
	b.clean()
}
