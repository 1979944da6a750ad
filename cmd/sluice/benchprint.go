package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"sluice/cmd/sluice/internal/terminal"
	"sluice/internal/units"
	"sluice/load"
)

// printedBench is a measurement in JSON.
type printedBench struct {
	URL         string                `json:"url"`
	Workload    string                `json:"workload"`
	Connections int                   `json:"connections"`
	Rate        float64               `json:"rate,omitempty"` // operations a second that were due; 0: a closed loop
	Seconds     float64               `json:"seconds"`
	Operations  []printedOperations   `json:"operations"` // of each kind, and, if there are several, of all
	Left        *printedBenchLeftover `json:"left,omitempty"`
}

// printedBenchLeftover counts the things that could not be removed, in JSON.
type printedBenchLeftover struct {
	Prefix   string `json:"prefix,omitempty"` // of the blobs
	Blobs    int64  `json:"blobs,omitempty"`
	Uploads  int    `json:"uploads,omitempty"`
	Sessions int    `json:"sessions,omitempty"`
}

// printedOperations are operations of one kind in JSON.
type printedOperations struct {
	Kind           string           `json:"kind"`
	Done           int64            `json:"done"` // in success or failure
	Failed         int64            `json:"failed"`
	Unsent         int64            `json:"unsent,omitempty"` // due by --rate, and not sent before the end
	Errors         map[string]int64 `json:"errors,omitempty"` // by code
	Bytes          int64            `json:"bytes"`
	PerSecond      float64          `json:"perSecond"` // successes
	BytesPerSecond float64          `json:"bytesPerSecond"`
	Latency        printedLatency   `json:"latencyMicroseconds"`
}

// printedLatency are latencies in microseconds.
type printedLatency struct {
	Min  float64 `json:"min"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// newPrintedAll returns the measurements of each kind in a time and, if there are several, of all.
func newPrintedAll(r *load.Recorder, elapsed time.Duration) []printedOperations {
	all := r.Summaries()
	printed := []printedOperations{}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		printed = append(printed, newPrintedOperations(k.String(), all[k], elapsed))
	}
	if len(all) > 1 {
		printed = append(printed, newPrintedOperations(kindAll, r.Total(), elapsed))
	}
	return printed
}

// kindAll is the name of all kinds together.
const kindAll = "all"

func newPrintedOperations(kind string, s *load.Summary, elapsed time.Duration) printedOperations {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return printedOperations{
		Kind: kind, Done: s.Done, Failed: s.Failed(), Unsent: s.Unsent, Errors: s.Errors, Bytes: s.Bytes,
		PerSecond: float64(s.Done-s.Failed()) / elapsed.Seconds(), BytesPerSecond: float64(s.Bytes) / elapsed.Seconds(),
		Latency: printedLatency{us(s.Min()), us(s.Mean()), us(s.Quantile(0.5)), us(s.Quantile(0.9)), us(s.Quantile(0.99)), us(s.Quantile(0.999)), us(s.Max())},
	}
}

// table writes the measurement for people.
func (p *printedBench) table(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.AlignRight)
	_, err := fmt.Fprintln(table, "operation\tdone\tfailed\tper second\tbytes/s\tp50\tp90\tp99\tp99.9\tmax\t")
	errs := []error{err}
	for _, o := range p.Operations {
		l := o.Latency
		_, err := fmt.Fprintf(table, "%s\t%d\t%d\t%.1f\t%s\t%s\t%s\t%s\t%s\t%s\t\n", o.Kind, o.Done, o.Failed, o.PerSecond, units.Bytes(int64(o.BytesPerSecond)),
			formatMicroseconds(l.P50), formatMicroseconds(l.P90), formatMicroseconds(l.P99), formatMicroseconds(l.P999), formatMicroseconds(l.Max))
		errs = append(errs, err)
	}
	errs = append(errs, table.Flush())
	for _, o := range p.Operations {
		for _, code := range slices.Sorted(maps.Keys(o.Errors)) {
			if o.Kind != kindAll {
				errs = append(errs, printLine(out, fmt.Sprintf("%s: %d failed: %s", o.Kind, o.Errors[code], terminal.Text(code))))
			}
		}
	}
	return errors.Join(errs...)
}

// remarks returns remarks about the measurement, for people.
func (p *printedBench) remarks() (lines []string) {
	for _, o := range p.Operations {
		if o.Unsent > 0 && o.Kind != kindAll {
			lines = append(lines, fmt.Sprintf("%s: %d operations were due and not sent before the end: the server or this machine is too slow for the rate, and latencies are at least those shown", o.Kind, o.Unsent))
		}
	}
	if p.Left != nil && p.Left.Sessions > 0 {
		lines = append(lines, fmt.Sprintf("%d sessions are left; they expire", p.Left.Sessions))
	}
	return lines
}

// formatMicroseconds returns a duration for people, with three digits.
func formatMicroseconds(us float64) string {
	switch {
	case us < 999.5:
		return fmt.Sprintf("%.3gus", us)
	case us < 999_500:
		return fmt.Sprintf("%.3gms", us/1e3)
	default:
		return fmt.Sprintf("%.4gs", us/1e6)
	}
}
