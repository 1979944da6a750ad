//go:build linux

package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"

	"sluice/internal/units"
)

// A curve has the throughput of one program over the size of its contents.
type curve struct {
	name   string
	color  string
	dashed bool
	points []point
}

// point is one size's throughput, in MiB/s.
type point struct{ size, rate float64 }

// The curves' measures, in pixels.
const (
	curvesWidth  = 940
	curvesHeight = 520
	curvesLeft   = 70
	curvesRight  = 150
	curvesTop    = 50
	curvesBottom = 40
)

// curves returns an SVG with two curves for each method, both axes logarithmic: sluice's and its
// first peer's. Rows without a size are not in it.
func curves(g *group) string {
	all := curvesOf(g)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", curvesWidth, curvesHeight, curvesWidth, curvesHeight)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="14" font-weight="bold">%s: MiB/s</text>`+"\n", html.EscapeString(g.title))
	fmt.Fprintf(&b, `<text x="8" y="36" fill="#666666">solid: sluice, dashed: its peer; both axes are logarithmic</text>`+"\n")
	var every []point
	for _, c := range all {
		every = append(every, c.points...)
	}
	if len(every) > 0 {
		drawCurves(&b, all, every)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// drawCurves draws the axes and the curves, which have these points.
func drawCurves(b *strings.Builder, all []*curve, every []point) {
	bySize := func(p, q point) int { return cmp.Compare(p.size, q.size) }
	byRate := func(p, q point) int { return cmp.Compare(p.rate, q.rate) }
	left, right := math.Log2(slices.MinFunc(every, bySize).size), math.Log2(slices.MaxFunc(every, bySize).size)
	low, high := math.Floor(math.Log10(slices.MinFunc(every, byRate).rate)), math.Ceil(math.Log10(slices.MaxFunc(every, byRate).rate))
	x := func(size float64) float64 {
		return curvesLeft + (math.Log2(size)-left)/max(1, right-left)*(curvesWidth-curvesLeft-curvesRight)
	}
	y := func(rate float64) float64 {
		return curvesHeight - curvesBottom - (math.Log10(rate)-low)/max(1, high-low)*(curvesHeight-curvesTop-curvesBottom)
	}
	for power := low; power <= high; power++ {
		rate := math.Pow(10, power)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#dddddd"/>`+"\n", curvesLeft, curvesWidth-curvesRight, y(rate), y(rate))
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">%g</text>`+"\n", curvesLeft-6, y(rate)+4, rate)
	}
	for power := math.Ceil(left); power <= right; power += 2 {
		size := math.Exp2(power)
		fmt.Fprintf(b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#eeeeee"/>`+"\n", x(size), x(size), curvesTop, curvesHeight-curvesBottom)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(size), curvesHeight-curvesBottom+18, units.FormatSize(int64(size)))
	}
	for i, c := range all {
		var line strings.Builder
		for _, p := range c.points {
			fmt.Fprintf(&line, "%.1f,%.1f ", x(p.size), y(p.rate))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", x(p.size), y(p.rate), c.color)
		}
		dashes := ""
		if c.dashed {
			dashes = ` stroke-dasharray="6 4"`
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.TrimSpace(line.String()), c.color, dashes)
		at := curvesTop + 20*(i+1)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="2"%s/>`+"\n", curvesWidth-curvesRight+10, curvesWidth-curvesRight+36, at-4, at-4, c.color, dashes)
		fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", curvesWidth-curvesRight+42, at, html.EscapeString(c.name))
	}
}

// curvesOf returns a group's curves, in order of its rows.
func curvesOf(g *group) (all []*curve) {
	colors := []string{"#4a7fb5", "#cc3333", "#4b8b3b", "#8a5fb0"}
	byName := map[string]*curve{}
	add := func(method, name string, dashed bool, p point) {
		c := byName[method+" "+name]
		if c == nil {
			methods := len(all) / 2 // each method has two curves
			c = &curve{name: method + ", " + name, color: colors[methods%len(colors)], dashed: dashed}
			byName[method+" "+name] = c
			all = append(all, c)
		}
		c.points = append(c.points, p)
	}
	for _, l := range g.lines() {
		if l.row.size == 0 || l.result.err != nil || l.peer.name != l.row.peers[0].name {
			continue
		}
		method, _, _ := strings.Cut(l.row.name, " ")
		size := float64(l.row.size)
		add(method, l.row.sluice.name, false, point{size, l.result.sluice.value * size / mib})
		add(method, l.peer.name, true, point{size, l.result.peer.value * size / mib})
	}
	return all
}
