//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/test/testenv"
)

// constant is a side with these values, one for each run.
func constant(name string, values ...float64) side {
	i := 0
	return side{name, func(context.Context, time.Duration) (measurement, error) {
		i++
		if v := values[(i-1)%len(values)]; v > 0 {
			return measurement{v, 10}, nil
		}
		return measurement{}, errors.New("it is broken")
	}}
}

func measureRow(t *testing.T, r *row, rounds int) {
	t.Helper()
	var all []round
	for n := range rounds {
		all = append(all, r.measure(t.Context(), time.Second, n%2 == 0))
	}
	r.results = summarize(all, len(r.peers))
}

func testGroup(t *testing.T) *group {
	r := &row{name: "GET <4 KiB>", unit: perSecond, sluice: constant("sluice", 80, 90, 300), peers: []peer{
		{side: constant("faster", 100), target: 0.85},
		{side: constant("broken", 100, 0), target: 2},
		{side: constant("slower", 10), target: 8, atMost: true},
	}}
	measureRow(t, r, 3)
	return &group{name: "test", title: "A & B", rows: []*row{r}, notes: []string{strings.Repeat("word ", 60)}}
}

func TestMedians(t *testing.T) {
	lines := testGroup(t).lines()
	if r := lines[0].result; r.ratio != 0.9 || r.spread != [2]float64{0.8, 3} || r.sluice.value != 90 || r.peer.value != 100 || r.sluice.cpu != 10 || lines[0].met() != "yes" {
		t.Errorf("%+v", r)
	}
	if r := lines[1].result; r.err == nil || r.ratio != 0 {
		t.Errorf("%+v, want why it was not measured", r)
	}
	if r := lines[2].result; r.ratio != 9 || lines[2].met() != "no" || lines[2].target() != "<=8" {
		t.Errorf("%+v, %s", r, lines[2].met())
	}
	for want, all := range map[float64][]float64{1: {1}, 1.5: {2, 1}, 2: {3, 1, 2}} {
		testenv.Equal(t, median(all), want, "the median of %v", all)
	}
	for want, x := range map[string]float64{"1,234,567": 1234567, "999": 999, "12.3": 12.3, "0.50": 0.5} {
		if got := number(x); got != want {
			t.Errorf("%v is printed as %s, want %s", x, got, want)
		}
	}
}

// TestSection writes the section into a document, twice, and checks the section and the text around
// it.
func TestSection(t *testing.T) {
	name := filepath.Join(t.TempDir(), "benchmarks.md")
	testenv.OK(t, os.WriteFile(name, []byte("# Before\n\n"+sectionBegin+"\nold\n"+sectionEnd+"\n\n# After\n"), 0o600))
	groups := []*group{testGroup(t), {name: "missing", title: "Missing", err: errors.New("nginx is not installed")}}
	var written string
	for range 2 {
		testenv.OK(t, writeSection(name, section("A machine.", options{rounds: 3, time: time.Second}, groups)))
		text := testenv.Must(os.ReadFile(name))(t)
		if written != "" && written != string(text) {
			t.Errorf("written twice it is\n%s\nand was\n%s", text, written)
		}
		written = string(text)
	}
	for _, want := range []string{"# Before\n\n" + sectionBegin + "\n", sectionEnd + "\n\n# After\n", "| GET <4 KiB> | 90.0 requests/s | faster: 100 | 0.90 (0.80-3.00) | >=0.85 |", "| 9.00 (8.00-30.00) | <=8, missed |", "not measured: broken: it is broken", "Not measured: nginx is not installed."} {
		if !strings.Contains(written, want) {
			t.Errorf("the document lacks %q:\n%s", want, written)
		}
	}
	for line := range strings.Lines(written) {
		if len(line) > 101 && !strings.HasPrefix(line, "|") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if _, err := replaceSection("no lines", "text"); err == nil {
		t.Error("a document without the lines was accepted")
	}
	if text := groups[0].text(); !strings.Contains(text, "0.90") || !strings.Contains(text, "not measured: broken") {
		t.Errorf("the table is %s", text)
	}
}

func TestOutputsOfGenerators(t *testing.T) {
	const wrk = "Running 1s test @ http://h\n  1 threads and 2 connections\n  2015 requests in 1.00s, 1.2MB read\nRequests/sec:   2010.50\nTransfer/sec:      1.20MB\n"
	if requests, rate, err := parseWrk(wrk); requests != 2015 || rate != 2010.5 || err != nil {
		t.Errorf("%v, %v, %v", requests, rate, err)
	}
	for _, wrong := range []string{"", "  Non-2xx or 3xx responses: 12\n" + wrk, "  Socket errors: connect 0, read 1, write 0, timeout 0\n" + wrk} {
		if _, _, err := parseWrk(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
	if rate, err := parseRedis("\"test\",\"rps\",\"avg_latency_ms\"\n\"DECR counter\",\"12345.67\",\"0.4\"\n"); rate != 12345.67 || err != nil {
		t.Errorf("%v, %v", rate, err)
	}
	if _, err := parseRedis("WARNING\n"); err == nil {
		t.Error("no output was accepted")
	}
	testenv.Equal(t, firstVersion("nginx version: nginx/1.22.1\n"), "1.22.1", "the version")
}

// TestBareHandlerRepeatsAResponse records a response of one bare handler with another.
func TestBareHandlerRepeatsAResponse(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		const responses = `{"get":{"Status":203,"Header":{"X-A":["b"],"Content-Length":["3"]},"Body":"YWJj"}}`
		_ = w.CloseWithError(serveBare(strings.NewReader(responses), w)) // it returns nil
	}()
	url := testenv.Must(readReady(t.Context(), r))(t)
	p, err := record(t.Context(), "GET", url+"/get/x", nil)
	if err != nil || p.Status != 203 || string(p.Body) != "abc" || p.Header.Get("X-A") != "b" || p.Header.Get("Date") != "" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := record(t.Context(), "HEAD", url+"/get/x", nil); err != nil || len(p.Body) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := record(t.Context(), "GET", url+"/other", nil); err == nil {
		t.Error("an unknown response was sent")
	}
}

// TestFilesAreWritten writes files concurrently for a moment, and checks the bytes on disk.
func TestFilesAreWritten(t *testing.T) {
	f := fileLoad{writers: 4, size: 3 * mib / 2, path: filepath.Join(t.TempDir(), "file")}
	if m, err := f.run(t.Context(), 50*time.Millisecond); err != nil || m.value <= 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	names, err := filepath.Glob(f.path + "-*")
	if err != nil || len(names) < f.writers || len(names) > ring*f.writers {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Size() != f.size {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
