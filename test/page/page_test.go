package page

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// busy starts a daemon with names whose ids are asked for. KATSUBUSHI_PAGE_LOAD=10m fills the charts
// before anything is looked at.
func busy(t *testing.T) *daemon {
	t.Helper()
	d := start(t, "-worker-id", "901-902", "-state-dir", t.TempDir(), "-state-any-disk",
		"-generator", "orders sequence start=1", "-generator", "sessions uuid7", "-generator", "old snowflake layout=twitter")
	d.ask(t)
	if text := os.Getenv("KATSUBUSHI_PAGE_LOAD"); text != "" {
		load, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(load)
	}
	await(t, "the charts have points", func() bool {
		return regexp.MustCompile(`ids a second +[1-9]`).MatchString(d.text(t))
	})
	return d
}

// TestPage: one daemon, looked at in every way.
func TestPage(t *testing.T) {
	d := busy(t)
	t.Run("looks", func(t *testing.T) { looks(t, d) })
	t.Run("keyboard", func(t *testing.T) { keyboard(t, d) })
	t.Run("without JavaScript", func(t *testing.T) { withoutScript(t, d) })
	t.Run("refreshes", func(t *testing.T) { refreshes(t, d) })
	t.Run("policy", func(t *testing.T) { policy(t, d) })
}

// looks takes the pictures, and checks contrast, width and names.
func looks(t *testing.T, d *daemon) {
	b := newTab(t, d.url)
	for _, c := range []struct {
		name, scheme, query string
		width               int
	}{
		{"light", "light", "", 1240}, {"dark", "dark", "", 1240}, {"narrow", "light", "?id=" + d.id(t, "a"), 320},
		{"narrow-dark", "dark", "", 320},
		{"inspector", "light", "?id=" + d.id(t, "sessions"), 800}, {"problem", "dark", "?id=hello", 800},
	} {
		b.look(c.width, c.scheme)
		b.open(d.url + c.query)
		b.readable(40)
		b.fits(c.width)
		b.shot(c.name)
		b.clean()
	}
	names := b.named()
	for role, want := range map[string][]string{
		"button": {"Pause", "Inspect"}, "textbox": {"What an id says"},
		"link": {"Skip to the inspector", "Runbook", "Metrics", "Statistics", "Readiness"},
	} {
		if !slices.Equal(names[role], want) {
			t.Errorf("%s: %q, want %q", role, names[role], want)
		}
	}
	pictures := append(names["image"], names["img"]...)
	if n := len(pictures); n != 4 || !strings.HasPrefix(pictures[0], "ids a second over the last 10 minutes: now ") {
		t.Errorf("%d pictures: %q", n, pictures)
	}
	b.clean()
}

// keyboard goes through the page with Tab, and inspects an id without a mouse.
func keyboard(t *testing.T, d *daemon) {
	b := newTab(t, d.url)
	b.look(1240, "light")
	b.open(d.url)
	want := []string{"Skip to the inspector", "pause", "id", "Inspect", "Runbook", "Metrics", "Statistics", "Readiness"}
	if got := b.tabs(len(want)); !slices.Equal(got, want) {
		t.Errorf("Tab goes to %q, want %q", got, want)
	}
	b.open(d.url)
	b.tabs(1)
	b.run(chromedp.KeyEvent(kb.Enter))
	if got := eval[string](b, "location.hash"); got != "#inspector" {
		t.Errorf("the first link leads to %q", got)
	}
	if got := b.tabs(1); got[0] != "id" {
		t.Errorf("after it Tab goes to %q", got)
	}
	id := d.id(t, "a")
	b.run(chromedp.KeyEvent(id), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#answer", chromedp.ByQuery))
	answer := eval[string](b, `document.getElementById("answer").textContent`)
	if !strings.Contains(answer, "this daemon has it now") ||
		eval[string](b, `document.getElementById("id").value`) != id {
		t.Errorf("the answer to %s: %s", id, answer)
	}
	if local := eval[string](b, `document.querySelector(".local dd").textContent`); !strings.Contains(local, "20") {
		t.Errorf("the time in this browser: %q", local)
	}
	b.clean()
}

// withoutScript: everything is there, and the inspector works.
func withoutScript(t *testing.T, d *daemon) {
	b := newTab(t, d.url)
	b.look(1240, "light")
	b.run(emulation.SetScriptExecutionDisabled(true))
	b.open(d.url + "?id=" + d.id(t, "a"))
	var text, pause string
	b.run(chromedp.OuterHTML("html", &text, chromedp.ByQuery), chromedp.OuterHTML("#pause", &pause, chromedp.ByQuery))
	for _, want := range []string{"issuing ids", ">901 <", ">902 <", "Nothing is wrong.", "orders", `class="line" d="M`,
		"this daemon has it now", "days left", "127.0.0.1</th>"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %s", want)
		}
	}
	if !strings.Contains(pause, "hidden") {
		t.Error("there is a button that does nothing")
	}
	b.shot("no-javascript")
	b.clean()
}

const asOf = `document.querySelector(".asof time").textContent`

// refreshes: figures change by themselves, what somebody types stays, and it is said when the daemon does
// not answer.
func refreshes(t *testing.T, d *daemon) {
	b := newTab(t, d.url)
	b.look(1240, "light")
	b.open(d.url)
	changed := func(what string) {
		t.Helper()
		before := eval[string](b, asOf)
		await(t, what, func() bool { return eval[string](b, asOf) != before })
	}
	b.run(chromedp.Focus("#id", chromedp.ByQuery), chromedp.KeyEvent("157330"))
	b.run(chromedp.Evaluate(`window.old = document.querySelector("#lanes tbody tr"); 0`, nil))
	changed("the page refreshes itself")
	if !eval[bool](b,
		`document.activeElement.id === "id" && document.activeElement.value === "157330" && window.old === `+
			`document.querySelector("#lanes tbody tr")`) {
		t.Error("a refresh takes what somebody typed, or the elements that are there")
	}
	b.clean()

	b.run(chromedp.Click("#pause", chromedp.ByQuery))
	if got := eval[string](b, `document.getElementById("pause").textContent`); got != "Go on" {
		t.Errorf("the button says %q", got)
	}
	b.run(chromedp.Click("#pause", chromedp.ByQuery))
	changed("it goes on after a pause")

	b.run(
		chromedp.Evaluate(
			`Object.defineProperty(document, "hidden", {value: true, configurable: true}); document.dispatchEvent(new `+
				`Event("visibilitychange")); 0`, nil))
	await(t, "nothing is under way", func() bool { // a request that had begun may still end
		before := eval[string](b, asOf)
		time.Sleep(3 * time.Second)
		return eval[string](b, asOf) == before
	})
	b.run(chromedp.Evaluate(`delete document.hidden; document.dispatchEvent(new Event("visibilitychange")); 0`, nil))
	changed("it goes on when somebody looks again")
	b.clean()

	d.cmd.Process.Signal(syscall.SIGSTOP)
	await(t, "it is said that the daemon does not answer", func() bool {
		return strings.Contains(eval[string](b, `document.getElementById("silent").innerText`),
			"No answer since ")
	})
	b.readable(40)
	b.shot("no-answer")
	if pill := eval[string](b, `document.querySelector(".pill").className`); strings.Contains(pill, "good") {
		t.Errorf("a daemon that does not answer has a pill of the class %q", pill)
	}
	d.cmd.Process.Signal(syscall.SIGCONT)
	await(t, "it answers again", func() bool { return eval[bool](b, `document.getElementById("silent").hidden`) })
	await(t, "the pill says so", func() bool {
		return strings.Contains(eval[string](b, `document.querySelector(".pill").className`), "good")
	})
	for _, p := range b.taken() { // of the browser itself, about requests that were given up
		if !strings.Contains(p, "network") {
			t.Error(p)
		}
	}
}

// policy: the checks above notice what they are for, since the browser refuses it and says so.
func policy(t *testing.T, d *daemon) {
	b := newTab(t, d.url)
	for _, hostile := range []string{
		`const s = document.createElement("script"); s.textContent = "window.evil = 1"; document.body.append(s)`,
		`document.body.insertAdjacentHTML("beforeend", "<img src='http://127.0.0.1:1/x.png'>")`,
		`document.body.insertAdjacentHTML("beforeend", "<p style='color: red'>x</p>")`,
		`document.body.insertAdjacentHTML("beforeend", "<p onclick='window.evil = 1'>x</p>"); ` +
			`document.body.lastChild.click()`,
		`console.error("x")`,
	} {
		b.open(d.url)
		b.clean()
		b.run(chromedp.Evaluate(hostile+"; 0", nil))
		var found []string
		await(t, "a problem is noticed", func() bool {
			found = append(found, b.taken()...)
			return len(found) > 0
		})
		if eval[bool](b, "window.evil === 1") {
			t.Errorf("the browser lets this be: %s", hostile)
		}
	}
}

// TestDegraded: a lease in a Redis that stands still.
func TestDegraded(t *testing.T) {
	port := freePort(t)
	redis := process(t, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir",
		t.TempDir())
	store := "redis://127.0.0.1:" + port + "/?ns=page"
	await(t, "the pool is made", func() bool {
		return exec.Command(binary(t), "lease", "init", "-how", "new", "-store", store, "-min-worker-id", "910",
			"-max-worker-id", "919").Run() == nil
	})
	d := start(t, "-store", store, "-lanes", "2", "-min-worker-id", "910", "-max-worker-id", "919")
	b := newTab(t, d.url)
	b.look(1240, "light")
	b.open(d.url)
	if got := eval[string](b, `document.getElementById("fleet").innerText`); !strings.Contains(got, "this daemon") {
		t.Errorf("the fleet: %s", got)
	}
	if got := eval[string](b, `document.getElementById("findings").innerText.trim()`); got != "Nothing is wrong." {
		t.Errorf("before: %s", got)
	}
	redis.Process.Signal(syscall.SIGSTOP)
	await(t, "the page says what is wrong", func() bool {
		return strings.Contains(eval[string](b, `document.getElementById("findings").innerText`), "is not extended")
	})
	found := eval[string](b, `document.getElementById("findings").innerText`)
	ping := "redis-cli -u redis://127.0.0.1:" + port + " ping"
	if !strings.Contains(found, ping) || strings.Contains(found, "Nothing is wrong") || strings.Contains(found, store) {
		t.Errorf("it says: %s", found)
	}
	for _, scheme := range []string{"light", "dark"} {
		b.look(1240, scheme)
		b.shot("degraded-" + scheme)
		for _, level := range []string{"urgent", "soon", "note"} { // whatever is wrong
			b.run(chromedp.Evaluate(`document.querySelector(".finding").className = "finding `+level+`"; 0`, nil))
			b.readable(30)
		}
	}
	b.look(320, "light")
	b.fits(320)
	b.shot("degraded-narrow")
	b.clean()
	redis.Process.Signal(syscall.SIGCONT)
	await(t, "leases are extended again", func() bool {
		return !strings.Contains(eval[string](b, `document.getElementById("findings").innerText`), "is not extended")
	})
}
