package page

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// contrast returns each visible text whose contrast with what is behind it is below 4.5, and as the last
// one how many texts there are. It composes the colours of all elements that a text is in.
const contrast = `(() => {
  const parse = (c) => { const n = c.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { const list = []; for (; e; e = e.parentElement) list.unshift(parse(getComputedStyle(e).backgroundColor));
    return list.reduce((below, top) => over(top, below), matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255]); };
  const low = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let n = 0;
  const check = (e, text) => {
    if (!text.trim() || !e.checkVisibility({visibilityProperty: true, opacityProperty: true}) || ["SCRIPT", "STYLE"].includes(e.nodeName)) return;
    n++;
    const below = behind(e), ink = over(parse(getComputedStyle(e).color), below), [a, b] = [light(ink), light(below)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) low.push(ratio.toFixed(2) + ": " + text.trim().slice(0, 40));
  };
  while (walker.nextNode()) check(walker.currentNode.parentElement, walker.currentNode.data);
  for (const e of document.querySelectorAll("input")) check(e, e.value || "x");
  return [...low, String(n)];
})()`

// readable checks the contrast of all texts.
func (b *tab) readable(least int) {
	b.t.Helper()
	got := eval[[]string](b, contrast)
	n := len(got) - 1
	for _, low := range got[:n] {
		b.t.Errorf("contrast %s", low)
	}
	if len(got[n]) < 2 || least > 0 && len(got[n]) == 2 && got[n] < "40" {
		b.t.Errorf("only %s texts were found", got[n])
	}
}

// fits checks that nothing is wider than the window.
func (b *tab) fits(width int) {
	b.t.Helper()
	got := eval[[]string](b, `[...document.querySelectorAll("body *")].filter((e) => !e.matches(".skip, thead, thead *, script, style")
	  && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 80)).concat([String(document.documentElement.scrollWidth)])`)
	n := len(got) - 1
	for _, wide := range got[:n] {
		b.t.Errorf("beyond %d pixels: %s", width, wide)
	}
	if got[n] != eval[string](b, "String(innerWidth)") {
		b.t.Errorf("at %d pixels the page is %s wide", width, got[n])
	}
}

// named checks that a screen reader has a name for everything that is used or looked at, and returns the
// names of each role.
func (b *tab) named() map[string][]string {
	b.t.Helper()
	var tree struct { // of all that the protocol says, what is needed here; Chromium's newest values are not in cdproto
		Nodes []struct {
			Ignored bool `json:"ignored"`
			Role    struct {
				Value string `json:"value"`
			} `json:"role"`
			Name struct {
				Value string `json:"value"`
			} `json:"name"`
		} `json:"nodes"`
	}
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, accessibility.CommandGetFullAXTree, accessibility.GetFullAXTree(), &tree)
	}))
	names := map[string][]string{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role, name := n.Role.Value, n.Name.Value
		names[role] = append(names[role], name)
		if name == "" &&
			slices.Contains([]string{"button", "textbox", "searchbox", "link", "image", "img", "heading", "region",
				"columnheader", "rowheader"}, role) {
			b.t.Errorf("a %s has no name", role)
		}
	}
	return names
}

// tabs presses Tab n times and returns what has the focus each time. Each must show that it has it.
func (b *tab) tabs(n int) (list []string) {
	b.t.Helper()
	for range n {
		b.run(chromedp.KeyEvent(kb.Tab))
		got := eval[[]string](b, `(() => { const e = document.activeElement, s = getComputedStyle(e);
		  return [e.id || e.textContent.trim(), s.outlineStyle, s.outlineWidth]; })()`)
		if got[1] == "none" || got[2] == "0px" {
			b.t.Errorf("one cannot see that %s has the focus", got[0])
		}
		list = append(list, got[0])
	}
	return list
}
