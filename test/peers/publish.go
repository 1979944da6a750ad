//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
)

// The lines between which the section is in docs/benchmarks.md.
const (
	sectionBegin = "<!-- make bench-peers: begin -->"
	sectionEnd   = "<!-- make bench-peers: end -->"
)

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

// writeSection replaces the section of a document.
func writeSection(name, text string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	replaced, err := replaceSection(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
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
