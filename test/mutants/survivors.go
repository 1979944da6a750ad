package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// survivor identifies a mutation by its line's text, because line numbers change. It stands for all
// mutations of its kind in lines with this text.
type survivor struct{ file, kind, line string }

func (s survivor) String() string { return s.file + "|" + s.kind + "|" + s.line }

// readSurvivors reads survivors.txt: the mutations that no test can detect, each with the reason.
func readSurvivors(root string) (map[survivor]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "test", "mutants", "survivors.txt"))
	if err != nil {
		return nil, err
	}
	return parseSurvivors(string(text))
}

// parseSurvivors parses one mutation per line, of the form FILE|KIND|TEXT OF THE LINE|REASON. It
// skips empty lines and those that begin with "//".
func parseSurvivors(text string) (map[survivor]string, error) {
	list := map[survivor]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		// The text of the line may contain the separator; the other fields do not.
		file, rest, ok1 := strings.Cut(line, "|")
		kind, rest, ok2 := strings.Cut(rest, "|")
		end := strings.LastIndex(rest, "|")
		if !ok1 || !ok2 || end < 0 || strings.TrimSpace(rest[end+1:]) == "" {
			return nil, fmt.Errorf("survivors.txt: the line %q is not FILE|KIND|TEXT|REASON", line)
		}
		s := survivor{file, kind, strings.TrimSpace(rest[:end])}
		if list[s] != "" {
			return nil, fmt.Errorf("survivors.txt: %s is listed twice", s)
		}
		list[s] = strings.TrimSpace(rest[end+1:])
	}
	return list, nil
}

// verdict is the result for a mutation or a planted fault.
type verdict string

const (
	detected   verdict = "detected"    // a test failed
	timedOut   verdict = "timed out"   // the tests took more than ten times as long as without it
	survived   verdict = "survives"    // the tests passed
	notCovered verdict = "not covered" // no test evaluates the mutation's operator
	notBuilt   verdict = "not built"   // the fault does not compile
	unproven   verdict = "unproven"    // the fault's tests do not pass without it either
)

// tally counts a package's mutations by verdict.
type tally struct {
	mutations, detected, timedOut, listed, survived, notCovered int
}

// judge compares the verdicts on the mutations in a folder's package with the list of survivors. It
// returns an error if a mutation survives that is not listed, and if a listed one does not: then
// its reason is wrong, or the tests fail whatever the mutation is.
func judge(dir string, mutations []mutation, verdicts []verdict, known map[survivor]string) (tally, error) {
	t := tally{mutations: len(mutations)}
	var errs []error
	survives := map[survivor]bool{}
	for i, m := range mutations {
		switch s := (survivor{m.file, m.kind, m.text}); verdicts[i] {
		case detected:
			t.detected++
		case timedOut:
			t.timedOut++
		case notCovered:
			t.notCovered++
		case survived:
			survives[s] = true
			if known[s] != "" {
				t.listed++
				continue
			}
			t.survived++
			errs = append(errs, fmt.Errorf("survives: %s", m))
		}
	}
	for _, s := range slices.SortedFunc(maps.Keys(known), func(a, b survivor) int { return strings.Compare(a.String(), b.String()) }) {
		if path.Dir(s.file) == dir && !survives[s] {
			errs = append(errs, fmt.Errorf("%s does not survive: remove it from survivors.txt", s))
		}
	}
	return t, errors.Join(errs...)
}
