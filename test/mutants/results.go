package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// planted is a fault with its fingerprint.
type planted struct {
	fault
	hash string
}

// result is a planted fault's result.
type result struct {
	Fault   string  `json:"fault"`
	Hash    string  `json:"hash"` // of all that the result depends on, see fingerprints
	Verdict verdict `json:"verdict"`
	Test    string  `json:"test,omitempty"`   // the test that failed or did not end
	Detail  string  `json:"detail,omitempty"` // why there is no verdict of the tests
	Seconds float64 `json:"seconds"`          // of building and running the tests with the fault
}

func (r result) String() string {
	text := string(r.Verdict)
	switch {
	case r.Test != "":
		text += " in " + r.Test
	case r.Detail != "":
		text += ": " + r.Detail
	}
	return fmt.Sprintf("%s: %s (%.1f s)", r.Fault, text, r.Seconds)
}

// check returns an error unless the result is the one that the list of faults promises.
func (r result) check(f fault) error {
	found := r.Verdict == detected || r.Verdict == timedOut
	switch {
	case found && f.survives != "":
		return fmt.Errorf("%s is detected: remove the reason why it survives", f.name)
	case r.Verdict == survived && f.survives == "":
		return fmt.Errorf("%s survives: no test of %s that matches %q detects it", f.name, f.packages, f.pattern)
	case found || r.Verdict == survived:
		return nil
	}
	return errors.New(r.String())
}

// journal holds results by fault and hash, so that results of several trees do not replace each
// other. Its file has one in each line, in JSON. Only one process may write to a file at a time.
type journal struct {
	mu   sync.Mutex
	file *os.File // nil: nothing is written
	out  io.Writer
	past map[[2]string]result
}

// openJournal opens a results file, and creates it if it does not exist. An incomplete last line,
// which a killed process wrote, is removed. Without a name, results are only printed.
func openJournal(name string, out io.Writer) (*journal, error) {
	j := &journal{out: out, past: map[[2]string]result{}}
	if name == "" {
		return j, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	if err := errors.Join(j.parse(whole), file.Truncate(int64(len(whole)))); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), file.Close())
	}
	j.file = file
	return j, nil
}

func (j *journal) parse(lines []byte) error {
	for line := range bytes.Lines(lines) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%w in the line %s", err, line)
		}
		j.past[[2]string{r.Fault, r.Hash}] = r
	}
	return nil
}

// fresh returns the fault's result if its tests came to a verdict for its hash.
func (j *journal) fresh(f planted) (result, bool) {
	r, ok := j.past[[2]string{f.name, f.hash}]
	return r, ok && r.Verdict != notBuilt && r.Verdict != unproven
}

// add prints a result, and appends it to the file. It is durable when add returns.
func (j *journal) add(r result) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.past[[2]string{r.Fault, r.Hash}] = r
	if _, err := fmt.Fprintln(j.out, r); err != nil || j.file == nil {
		return err
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(line, '\n'))
	return errors.Join(err, j.file.Sync())
}

func (j *journal) close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}

// readJournal merges results files.
func readJournal(names []string, out io.Writer) (*journal, error) {
	j := &journal{out: out, past: map[[2]string]result{}}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := j.parse(text[:bytes.LastIndexByte(text, '\n')+1]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return j, nil
}

// summarize prints a table with the faults' results. It returns an error that names those which are
// not as the list promises, or have no result of this tree.
func (j *journal) summarize(faults []planted) error {
	var errs []error
	counts, seconds := map[string]int{}, 0.0
	for _, f := range faults {
		r, ok := j.past[[2]string{f.name, f.hash}]
		if !ok {
			errs = append(errs, fmt.Errorf("%s was not planted in this tree", f.name))
			continue
		}
		seconds += r.Seconds
		column := string(r.Verdict)
		if r.Verdict == survived && f.survives != "" {
			column = excused
		}
		counts[column]++
		errs = append(errs, r.check(f.fault))
	}
	columns := []string{string(detected), string(timedOut), excused, string(survived), string(notBuilt), string(unproven)}
	var row strings.Builder
	for _, column := range columns {
		fmt.Fprintf(&row, " %d |", counts[column])
	}
	_, err := fmt.Fprintf(j.out, "| faults | %s | minutes |\n|%s\n| %d |%s %.0f |\n",
		strings.Join(columns, " | "), strings.Repeat("---|", len(columns)+2), len(faults), &row, seconds/60)
	return errors.Join(append(errs, err)...)
}

// excused is the column for faults that survive for a reason that the list has.
const excused = "survives with a reason"
