package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// fault is a mistake that a programmer could make in one place.
type fault struct {
	name     string
	file     string   // relative to the root
	pattern  string   // of the tests that must detect it; empty: all of their packages
	packages []string // the folders of these tests, each in the form ./a/b
	old, new string   // whole lines
	survives string   // why no test can detect it; empty: one must
}

func readFaults(root string) ([]fault, error) {
	text, err := os.ReadFile(filepath.Join(root, "test", "mutants", "faults.txt"))
	if err != nil {
		return nil, err
	}
	return parseFaults(string(text))
}

// parseFaults parses faults that are separated by empty lines. Lines that begin with "//" are
// comments. A fault begins with its name, and has lines of the forms "file: PATH", "tests: [-run
// PATTERN] ./FOLDER..." and, if no test can detect it, "survives: REASON"; then the lines that it
// replaces, each after "-", and the new lines, each after "+".
func parseFaults(text string) ([]fault, error) {
	var faults []fault
	for _, block := range strings.Split(text, "\n\n") {
		f, err := parseFault(block)
		if err != nil {
			return nil, fmt.Errorf("faults.txt: %w in\n%s", err, block)
		}
		if f.name != "" {
			faults = append(faults, f)
		}
	}
	return faults, nil
}

func parseFault(block string) (fault, error) {
	var f fault
	for line := range strings.SplitSeq(block, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "" || strings.HasPrefix(line, "//"):
		case line[0] == '-':
			f.old += line[1:] + "\n"
		case line[0] == '+':
			f.new += line[1:] + "\n"
		case f.name == "":
			f.name = line
		case key == "file":
			f.file = value
		case key == "tests":
			f.packages = strings.Fields(value)
			if len(f.packages) > 1 && f.packages[0] == "-run" {
				f.pattern, f.packages = f.packages[1], f.packages[2:]
			}
		case key == "survives":
			f.survives = value
		default:
			return f, fmt.Errorf("the line %q is not of a known form", line)
		}
	}
	if f.name != "" && (f.file == "" || len(f.packages) == 0 || f.old == "") {
		return f, errors.New("a file, tests or the lines to replace are missing")
	}
	for _, dir := range f.packages {
		if !strings.HasPrefix(dir, "./") {
			return f, fmt.Errorf("%q is not a folder of the form ./a/b", dir)
		}
	}
	return f, nil
}

// apply returns the file's text with the fault in it. The text must contain the lines to replace
// exactly once.
func (f fault) apply(text string) (string, error) {
	// With a line break before the text the first line is found like any other.
	text, old := "\n"+text, "\n"+f.old
	at := strings.Index(text, old)
	if at < 0 || strings.Contains(text[at+1:], old) {
		return "", fmt.Errorf("%s: %s does not contain the lines to replace exactly once", f.name, f.file)
	}
	return (text[:at] + "\n" + f.new + text[at+len(old):])[1:], nil
}
