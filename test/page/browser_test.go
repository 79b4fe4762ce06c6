package page

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// A tab shows pages of one daemon, and notes what goes wrong in it.
type tab struct {
	context.Context
	t *testing.T

	mu       sync.Mutex
	problems []string // of the console, of the policy, requests to elsewhere
	requests int
}

// newTab opens a tab for the pages below address.
func newTab(t *testing.T, address string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.WSURLReadTimeout(patience))
	if os.Getuid() == 0 { // Chromium's sandbox does not want root
		options = append(options, chromedp.NoSandbox)
	}
	browser, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	limited, cancel := context.WithTimeout(browser, 5*patience)
	t.Cleanup(cancel)
	ctx, closeTab := chromedp.NewContext(limited)
	t.Cleanup(closeTab)
	b := &tab{Context: ctx, t: t}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			b.problem(fmt.Sprintf("console.%s: %s", e.Type, describe(e.Args)))
		case *runtime.EventExceptionThrown:
			b.problem("exception: " + e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			b.problem(fmt.Sprintf("%s, %s: %s", e.Entry.Level, e.Entry.Source, e.Entry.Text))
		case *network.EventRequestWillBeSent:
			b.mu.Lock()
			b.requests++
			b.mu.Unlock()
			if u := e.Request.URL; !strings.HasPrefix(u, address) && !strings.HasPrefix(u, "data:") {
				b.problem("a request to elsewhere: " + u)
			}
		}
	})
	b.run(network.Enable(), log.Enable())
	return b
}

func describe(args []*runtime.RemoteObject) string {
	var list []string
	for _, a := range args {
		list = append(list, string(a.Value))
	}
	return strings.Join(list, " ")
}

func (b *tab) problem(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, text)
}

// clean fails the test for each problem so far, and forgets them.
func (b *tab) clean() {
	b.t.Helper()
	for _, p := range b.taken() {
		b.t.Error(p)
	}
}

func (b *tab) taken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.problems
	b.problems = nil
	return list
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// eval returns the value of an expression.
func eval[T any](b *tab, expression string) (v T) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &v))
	return v
}

// look sets how the page is shown: a width in pixels, and a colour scheme.
func (b *tab) look(width int, scheme string) {
	b.t.Helper()
	b.run(
		emulation.SetDeviceMetricsOverride(int64(width), 900, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}),
	)
}

// shot saves a picture of the whole page as bin/page/NAME.png.
func (b *tab) shot(name string) {
	b.t.Helper()
	var png []byte
	b.run(chromedp.FullScreenshot(&png, 100))
	dir := filepath.Join("..", "..", "bin", "page")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// open shows a page.
func (b *tab) open(page string) {
	b.t.Helper()
	if _, err := url.Parse(page); err != nil {
		b.t.Fatal(err)
	}
	b.run(chromedp.Navigate(page), chromedp.WaitReady("footer", chromedp.ByQuery))
}
