package page

import (
	"fmt"
	"strconv"
	"strings"
)

// The chart's own coordinates. It is stretched to the width of its place.
const (
	chartWidth  = 600
	chartHeight = 100
	headroom    = 8 // above the peak
)

// A chart shows one figure over the last Span.
type chart struct {
	id, title string
	now       string // the figure at present
	detail    string // a line below the figure
	points    []point
	show      func(float64) string // writes a value
}

// peak returns the largest value.
func (c chart) peak() (peak float64) {
	for _, p := range c.points {
		peak = max(peak, p.value)
	}
	return peak
}

func (c chart) fields() fields {
	f := fields{"id": c.id, "title": c.title, "now": c.now, "detail": c.detail, "said": c.said(), "line": "",
		"peak": "measuring"}
	if len(c.points) > 0 {
		f["line"], f["area"], f["peak"] = c.line(), c.area(), "peak "+c.show(c.peak())
	}
	return f
}

// said is the chart in words.
func (c chart) said() string {
	if len(c.points) == 0 {
		return c.title + ": not measured yet"
	}
	return fmt.Sprintf("%s over the last 10 minutes: now %s, at most %s", c.title, c.now, c.show(c.peak()))
}

// line is the path through the points, for SVG.
func (c chart) line() string { return "M" + c.path()[1:] }

// area is the path around what is below the line.
func (c chart) area() string {
	first, last := c.points[0], c.points[len(c.points)-1]
	return "M" + x(first) + " 100" + c.path() + "L" + x(last) + " 100Z"
}

// path leads to each point.
func (c chart) path() string {
	var b strings.Builder
	peak := c.peak()
	for _, p := range c.points {
		y := float64(chartHeight)
		if peak > 0 {
			y -= (chartHeight - headroom) * p.value / peak
		}
		fmt.Fprintf(&b, "L%s %.1f", x(p), y)
	}
	return b.String()
}

// x is where a point is: the right edge is now.
func x(p point) string {
	share := max(0, min(1, 1-float64(p.ago)/float64(Span)))
	return strconv.FormatFloat(chartWidth*share, 'f', 1, 64)
}
