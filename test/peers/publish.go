//go:build linux

package main

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
)

// The lines between which the section is in docs/benchmarks.md.
const (
	sectionBegin = "<!-- make bench-peers: begin -->"
	sectionEnd   = "<!-- make bench-peers: end -->"
)

// plotFolder is the plots' folder below docs.
const plotFolder = "benchmarks"

// section returns the section of docs/benchmarks.md.
func section(about string, o options, measured []*group) string {
	var b strings.Builder
	wrap(&b, fmt.Sprintf("`make bench-peers` wrote this section: medians of %d rounds of %s each, in which sluice and its peers took turns on one machine, with the generator on it. %s "+
		"sluice acknowledges a write when it is on disk, and its log is discarded. Each rate is compared with the peer's; in parentheses are the lowest and the highest ratio of a round.",
		o.rounds, o.time, about))
	for _, g := range measured {
		fmt.Fprintf(&b, "\n### %s\n\n", g.title)
		if g.err != nil {
			wrap(&b, "Not measured: "+firstLine(g.err)+".")
			continue
		}
		for _, note := range g.notes {
			wrap(&b, note)
			b.WriteString("\n")
		}
		b.WriteString("| | sluice | peer | ratio | target |\n|---|---|---|---|---|\n")
		for _, l := range g.lines() {
			r := l.result
			if r.err != nil {
				fmt.Fprintf(&b, "| %s | | %s | not measured: %s | %s |\n", l.row.name, l.peer.name, strings.ReplaceAll(firstLine(r.err), "|", "/"), l.target())
				continue
			}
			target := l.target()
			if l.met() == "no" {
				target += ", missed"
			}
			fmt.Fprintf(&b, "| %s | %s %s | %s: %s | %.2f (%.2f-%.2f) | %s |\n", l.row.name, number(r.sluice.value), l.row.unit, l.peer.name, number(r.peer.value),
				r.ratio, r.spread[0], r.spread[1], target)
		}
		fmt.Fprintf(&b, "\n![%s](%s/%s.svg)\n", g.title, plotFolder, g.name)
	}
	return b.String()
}

// wrap writes a paragraph in lines of at most 100 columns.
func wrap(b *strings.Builder, text string) {
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len(word) > 100:
			b.WriteString("\n")
			column = 0
		default:
			b.WriteString(" ")
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	b.WriteString("\n")
}

// writeSection replaces the section of docs/benchmarks.md and the plots.
func writeSection(docs, text string, measured []*group) error {
	name := filepath.Join(docs, "benchmarks.md")
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	replaced, err := replaceSection(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.MkdirAll(filepath.Join(docs, plotFolder), 0o777); err != nil {
		return err
	}
	for _, g := range measured {
		if g.err == nil {
			if err := os.WriteFile(filepath.Join(docs, plotFolder, g.name+".svg"), []byte(g.svg()), 0o666); err != nil {
				return err
			}
		}
	}
	return os.WriteFile(name, []byte(replaced), 0o666)
}

// replaceSection replaces the text between the section's lines.
func replaceSection(document, text string) (string, error) {
	before, rest, begins := strings.Cut(document, sectionBegin+"\n")
	_, after, ends := strings.Cut(rest, sectionEnd+"\n")
	if !begins || !ends {
		return "", fmt.Errorf("the lines %s and %s are missing", sectionBegin, sectionEnd)
	}
	return before + sectionBegin + "\n\n" + text + "\n" + sectionEnd + "\n" + after, nil
}

// A plot's measures, in pixels.
const (
	plotWidth  = 940
	plotLabel  = 470 // for the names
	plotBar    = 16
	plotStep   = 26
	plotTop    = 44
	plotBottom = 16
)

func (g *group) svg() string {
	if g.plot != nil {
		return g.plot(g)
	}
	return bars(g)
}

// bars returns an SVG with a bar for each line's ratio, marks for its target and for its lowest and
// highest round, and a line at 1, which is the peer.
func bars(g *group) string {
	lines := g.lines()
	most := 1.25
	for _, l := range lines {
		if l.result.err == nil {
			most = max(most, l.result.spread[1]*1.05, l.peer.target*1.05)
		}
	}
	x := func(ratio float64) float64 { return plotLabel + ratio/most*(plotWidth-plotLabel-60) }
	height := plotTop + len(lines)*plotStep + plotBottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height, plotWidth, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="8" y="20" font-size="14" font-weight="bold">%s: sluice in multiples of its peer</text>`+"\n", html.EscapeString(g.title))
	fmt.Fprintf(&b, `<text x="8" y="36" fill="#666666">blue: median, black: lowest and highest round, red: target, grey: the peer</text>`+"\n")
	fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#999999"/>`+"\n", x(1), x(1), plotTop, height-plotBottom)
	for i, l := range lines {
		y := plotTop + i*plotStep + 4
		fmt.Fprintf(&b, `<text x="8" y="%d" font-size="11">%s</text>`+"\n", y+12, html.EscapeString(l.row.name+" / "+l.peer.name+" ("+l.target()+")"))
		if l.result.err != nil {
			fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#666666">not measured</text>`+"\n", plotLabel, y+12)
			continue
		}
		r := l.result
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="#4a7fb5"/>`+"\n", plotLabel, y, x(r.ratio)-plotLabel, plotBar)
		middle := y + plotBar/2
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#000000"/>`+"\n", x(r.spread[0]), x(r.spread[1]), middle, middle)
		if l.peer.target > 0 {
			fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#cc3333" stroke-width="3"/>`+"\n", x(l.peer.target), x(l.peer.target), y-2, y+plotBar+2)
		}
		fmt.Fprintf(&b, `<text x="%.1f" y="%d">%.2f</text>`+"\n", max(x(r.ratio), x(r.spread[1]), x(l.peer.target))+6, y+12, r.ratio)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
