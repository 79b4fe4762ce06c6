package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Measures of the drawing, in its own units.
const (
	panelWidth = 300
	panelGap   = 20
	barHeight  = 15
	nameWidth  = 112
	barRoom    = panelWidth - nameWidth - 64 // beside the bar stands its figure
	perRow     = 3
)

// writeChart draws the servers' CPU time per request as SVG: a panel for each mode, a bar for each
// server, and the longest bar of each panel as long as its room. Shorter is better.
func (r *results) writeChart(w io.Writer) error {
	var shown []mode
	for _, m := range r.modes {
		if m.client == rawClient {
			shown = append(shown, m)
		}
	}
	panelHeight := 26 + len(r.servers)*(barHeight+4) + panelGap
	rows := (len(shown) + perRow - 1) / perRow
	width, height := perRow*(panelWidth+panelGap)+panelGap, 44+rows*panelHeight
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width,
		height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b,
		`<text x="%d" y="26" font-size="15" fill="#222222">Server CPU per request, microseconds (shorter is better)</text>`+
			"\n", panelGap)
	for i, m := range shown {
		x, y := panelGap+i%perRow*(panelWidth+panelGap), 56+i/perRow*panelHeight
		r.drawPanel(&b, m, x, y)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *results) drawPanel(b *strings.Builder, m mode, x, y int) {
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold" fill="#222222">%s</text>`+"\n", x, y, xmlText(m.title))
	longest := 0.0
	for _, s := range r.servers {
		if v := r.of(cell{m.name, s}, sample.cpuMicros); v > longest {
			longest = v
		}
	}
	y += 8
	for _, s := range r.servers {
		v := r.of(cell{m.name, s}, sample.cpuMicros)
		if math.IsNaN(v) {
			continue
		}
		length := v / longest * barRoom
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" fill="#444444">%s</text>`+"\n", x+nameWidth-6, y+barHeight-4,
			xmlText(s))
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`+"\n", x+nameWidth, y, length, barHeight,
			r.colour(s))
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="#222222">%s</text>`+"\n", float64(x+nameWidth)+length+4, y+barHeight-4,
			number(v))
		y += barHeight + 4
	}
}

// colour sets the daemon's bars apart from the others'.
func (r *results) colour(server string) string {
	for _, s := range r.ours {
		if s == server {
			return "#b5651d"
		}
	}
	return "#9aa5b1"
}

func xmlText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
