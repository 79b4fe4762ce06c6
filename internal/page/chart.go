package page

import (
	"fmt"
	"strconv"
)

// The chart's own coordinates. It is stretched to the width of its place.
const (
	chartWidth  = 600
	chartHeight = 100
	headroom    = 8 // above the peak
)

// A chart shows one figure over the last Span.
type chart struct {
	id     markup
	title  string
	now    string // the figure at present
	unit   string
	detail string // a line below the figure
	points []point
	show   func(float64) string // writes a value
}

// peak returns the largest value.
func (c *chart) peak() (peak float64) {
	for _, p := range c.points {
		peak = max(peak, p.value)
	}
	return peak
}

// said is the chart in words.
func (c *chart) said() string {
	if len(c.points) == 0 {
		return c.title + ": not measured yet"
	}
	return fmt.Sprintf("%s over the last 10 minutes: now %s%s, at most %s%s", c.title, c.now, c.unit, c.show(c.peak()),
		c.unit)
}

// chart draws one figure.
func (w *writer) chart(c chart) {
	w.raw(`<figure class="card chart" id="`, c.id, `"><figcaption>`)
	w.put(`<span class="label">`, c.title, `</span>`)
	w.put(`<span class="figure">`, c.now, ``)
	w.put(`<small>`, c.unit, `</small></span>`)
	w.put(`<span class="detail">`, c.detail, `</span></figcaption>`)
	w.put(`<svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img" aria-label="`, c.said(), `">`)
	w.raw(`<path class="grid" d="M0 50H600M0 100H600"/>`)
	if n := len(c.points); n > 0 {
		w.raw(`<path class="area" d="`)
		w.text("M" + x(c.points[0]) + " 100")
		w.line(c.points, c.peak(), "L")
		w.text("L" + x(c.points[n-1]) + " 100Z")
		w.raw(`"/><path class="line" d="`)
		w.line(c.points, c.peak(), "M")
		w.raw(`"/>`)
	}
	w.raw(`</svg><p class="axis" aria-hidden="true"><span>−10 min</span>`)
	peak := "measuring"
	if len(c.points) > 0 {
		peak = "peak " + c.show(c.peak())
	}
	w.put(`<span>`, peak, `</span><span>now</span></p></figure>`)
}

// x is where a point is: the right edge is now.
func x(p point) string {
	share := max(0, min(1, 1-float64(p.ago)/float64(Span)))
	return strconv.FormatFloat(chartWidth*share, 'f', 1, 64)
}

// line writes the path through points; begin is the letter of the first one.
func (w *writer) line(points []point, peak float64, begin string) {
	for i, p := range points {
		y := float64(chartHeight)
		if peak > 0 {
			y -= (chartHeight - headroom) * p.value / peak
		}
		letter := "L"
		if i == 0 {
			letter = begin
		}
		w.text(letter + x(p) + " " + strconv.FormatFloat(y, 'f', 1, 64))
	}
}
