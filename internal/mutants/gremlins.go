package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// gremlinsReport is the report of go-gremlins on one package. It holds only the
// members that are judged; names of files are relative to the package.
type gremlinsReport struct {
	Files []struct {
		Name      string `json:"file_name"`
		Mutations []struct {
			Line   int    `json:"line"`
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"mutations"`
	} `json:"files"`
}

// survivor is a mutation that no test can notice, with the reason. It is known
// by the text of its line, since the number of the line changes.
type survivor struct{ file, kind, line, reason string }

// readSurvivors reads survivors.txt: a mutation a line, of the form
// FILE|KIND|TEXT OF THE LINE|REASON.
func readSurvivors(root string) ([]survivor, error) {
	text, err := os.ReadFile(filepath.Join(root, "internal", "mutants", "survivors.txt"))
	if err != nil {
		return nil, err
	}
	return parseSurvivors(string(text))
}

func parseSurvivors(text string) ([]survivor, error) {
	var list []survivor
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		// The text may hold the separator, the others do not.
		file, rest, ok1 := strings.Cut(line, "|")
		kind, rest, ok2 := strings.Cut(rest, "|")
		end := strings.LastIndex(rest, "|")
		if !ok1 || !ok2 || end < 0 || strings.TrimSpace(rest[end+1:]) == "" {
			return nil, fmt.Errorf("survivors.txt: the line %q is not FILE|KIND|TEXT|REASON", line)
		}
		list = append(list, survivor{file, kind, strings.TrimSpace(rest[:end]), strings.TrimSpace(rest[end+1:])})
	}
	return list, nil
}

// judge prints what became of the mutations of the package in dir. It is an error when one lived that
// survivors.txt does not list, and when one that it lists was noticed: then the
// reason is wrong, or the tests fail whatever the mutation is.
func judge(root, dir, name string, out io.Writer) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var report gremlinsReport
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	known, err := readSurvivors(root)
	if err != nil {
		return err
	}
	counts := map[string]int{}
	lived, noticed := map[survivor]bool{}, map[survivor]bool{}
	for _, file := range report.Files {
		file.Name = path.Join(dir, file.Name)
		for _, m := range file.Mutations {
			counts[m.Status]++
			line, err := lineOf(root, file.Name, m.Line)
			if err != nil {
				return err
			}
			switch s := (survivor{file: file.Name, kind: m.Type, line: line}); m.Status {
			case "LIVED":
				lived[s] = true
			case "KILLED":
				noticed[s] = true
			}
		}
	}
	var errs []error
	for _, s := range known {
		s.reason = ""
		if noticed[s] && !lived[s] {
			errs = append(errs, fmt.Errorf("%s|%s|%s| is noticed: remove the reason why it survives", s.file, s.kind, s.line))
		}
		delete(lived, s)
	}
	for s := range lived {
		errs = append(errs, fmt.Errorf("%s|%s|%s| survives", s.file, s.kind, s.line))
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	_, err = fmt.Fprintf(out, "%d mutations were noticed, %d timed out, %d lived, %d are not covered\n",
		counts["KILLED"], counts["TIMED OUT"], counts["LIVED"], counts["NOT COVERED"])
	return errors.Join(append(errs, err)...)
}

// lineOf returns a line of a file, counted from 1, without the white space
// around it.
func lineOf(root, file string, number int) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(text), "\n")
	if number < 1 || number > len(lines) {
		return "", fmt.Errorf("%s has no line %d", file, number)
	}
	return strings.TrimSpace(lines[number-1]), nil
}
