//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// measurement is the result of one load.
type measurement struct {
	value float64 // in the row's unit
	cpu   float64 // the server's processor time for one operation, in microseconds; 0: not known
}

// side is one program under a load.
type side struct {
	name string
	run  func(ctx context.Context, d time.Duration) (measurement, error)
}

// peer is a side that sluice is compared with.
type peer struct {
	side

	target float64 // for the ratio
	atMost bool    // reports whether the ratio must be at most the target, and not at least
}

// row is one kind of load. Its peers are measured with sluice in each round.
type row struct {
	name   string
	unit   string
	sluice side
	peers  []peer

	results []result // one for each peer
}

// result is a row's outcome with a peer.
type result struct {
	sluice, peer measurement // medians
	ratio        float64     // median over the rounds
	spread       [2]float64  // lowest and highest round
	err          error       // why there is no outcome
}

// group is a number of rows with the servers that they need.
type group struct {
	name  string // in the names of rows
	title string
	notes []string

	// prepare starts the servers and returns the rows.
	prepare func(ctx context.Context, e *environment) ([]*row, error)

	rows []*row
	err  error // why the group was not measured
}

// measure measures a group. If a group or row cannot be measured, the table has the reason; an
// error is returned if the context is cancelled.
func (e *environment) measure(ctx context.Context, g *group) (err error) {
	if err := e.begin(g.name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.end()) }()
	rows, err := g.prepare(ctx, e)
	if err != nil {
		g.err = err
		fmt.Fprintf(os.Stderr, "peers: %s: not measured: %v\n", g.name, err)
		return ctx.Err()
	}
	for _, r := range rows {
		if e.rows.MatchString(r.name) {
			g.rows = append(g.rows, r)
		}
	}
	rounds := make([][]round, len(g.rows))
	for n := -1; n < e.rounds; n++ { // the first one warms up
		for i, r := range g.rows {
			d := e.time
			if n < 0 {
				d = min(d, 500*time.Millisecond)
			}
			fmt.Fprintf(os.Stderr, "peers: %s/%s, round %d of %d\n", g.name, r.name, n+1, e.rounds)
			one := r.measure(ctx, d, n%2 == 0)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if n >= 0 {
				rounds[i] = append(rounds[i], one)
			}
		}
	}
	for i, r := range g.rows {
		r.results = summarize(rounds[i], len(r.peers))
	}
	return nil
}

// round are a row's measurements in one round. The first one is sluice's.
type round []outcome

type outcome struct {
	measurement

	err error
}

// measure measures a row's sides once, in this order or the other.
func (r *row) measure(ctx context.Context, d time.Duration, backwards bool) round {
	sides := []side{r.sluice}
	for _, p := range r.peers {
		sides = append(sides, p.side)
	}
	all := make(round, len(sides))
	for i := range sides {
		if backwards {
			i = len(sides) - 1 - i
		}
		m, err := sides[i].run(ctx, d)
		if err != nil {
			err = fmt.Errorf("%s: %w", sides[i].name, err)
		}
		all[i] = outcome{m, err}
	}
	return all
}

// summarize returns the medians of rounds for each peer.
func summarize(rounds []round, peers int) []result {
	results := make([]result, peers)
	for p := range results {
		var ratios []float64
		var own, other []measurement
		var errs []error
		for _, r := range rounds {
			if err := errors.Join(r[0].err, r[p+1].err); err != nil {
				errs = append(errs, err)
				continue
			}
			own, other = append(own, r[0].measurement), append(other, r[p+1].measurement)
			ratios = append(ratios, r[0].value/r[p+1].value)
		}
		if len(errs) > 0 {
			results[p].err = errs[0]
			continue
		}
		results[p] = result{sluice: medians(own), peer: medians(other), ratio: median(ratios), spread: [2]float64{slices.Min(ratios), slices.Max(ratios)}}
	}
	return results
}

func medians(all []measurement) measurement {
	var values, cpus []float64
	for _, m := range all {
		values, cpus = append(values, m.value), append(cpus, m.cpu)
	}
	return measurement{median(values), median(cpus)}
}

// median returns the median of at least one number.
func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// line is a line in the table: a row with one peer.
type line struct {
	row    *row
	peer   *peer
	result *result
}

func (g *group) lines() (all []line) {
	for _, r := range g.rows {
		for i := range r.results {
			all = append(all, line{r, &r.peers[i], &r.results[i]})
		}
	}
	return all
}

// met returns whether the target is met, in a word.
func (l *line) met() string {
	switch {
	case l.peer.target == 0:
		return ""
	case l.peer.atMost == (l.result.ratio <= l.peer.target):
		return "yes"
	default:
		return "no"
	}
}

// target returns the target in words.
func (l *line) target() string {
	switch {
	case l.peer.target == 0:
		return "-"
	case l.peer.atMost:
		return fmt.Sprintf("<=%g", l.peer.target)
	default:
		return fmt.Sprintf(">=%g", l.peer.target)
	}
}

// text returns a group's table for a terminal.
func (g *group) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n", g.title)
	if g.err != nil {
		fmt.Fprintf(&b, "not measured: %v\n", g.err)
		return b.String()
	}
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0) // a strings.Builder returns no errors
	_, _ = fmt.Fprintln(table, "row\tunit\tsluice\tpeer\t\tratio\t(rounds)\ttarget\tmet\tcpu us\tpeer cpu")
	for _, l := range g.lines() {
		r := l.result
		if r.err != nil {
			_, _ = fmt.Fprintf(table, "%s\t%s\t\t\t%s\t\tnot measured: %v\n", l.row.name, l.row.unit, l.peer.name, firstLine(r.err))
			continue
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f-%.2f\t%s\t%s\t%s\t%s\n", l.row.name, l.row.unit, number(r.sluice.value), number(r.peer.value), l.peer.name,
			r.ratio, r.spread[0], r.spread[1], l.target(), l.met(), cpuText(r.sluice.cpu), cpuText(r.peer.cpu))
	}
	_ = table.Flush()
	return b.String()
}

func firstLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}

// number returns a number with three digits or more, grouped in thousands.
func number(x float64) string {
	switch {
	case x < 10:
		return fmt.Sprintf("%.2f", x)
	case x < 100:
		return fmt.Sprintf("%.1f", x)
	}
	digits := fmt.Sprintf("%.0f", x)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

func cpuText(us float64) string {
	if us == 0 {
		return "-"
	}
	return number(us)
}
