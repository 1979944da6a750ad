package arch

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	invariant = regexp.MustCompile(`(?m)^(\d+)\. `)
	// carried is the end of a test's comment, such as "Invariants 3, 12."
	carried = regexp.MustCompile(`(?m)^// Invariants? ([\d,/\s]+)\.\nfunc (?:Test|Fuzz|Benchmark)`)
)

// TestEveryInvariantHasATest checks that the entries of docs/invariants.md are numbered without a
// gap, and that comments of tests, fuzz targets and benchmarks end with each number, and with no
// other.
func TestEveryInvariantHasATest(t *testing.T) {
	tests := map[int]string{}
	for _, s := range sources(t) {
		if s.test {
			for _, number := range invariantsOf(s.text) {
				tests[number] = s.file
			}
		}
	}
	entries := invariant.FindAllStringSubmatch(textOf(t, "docs", "invariants.md"), -1)
	if len(entries) < 100 {
		t.Errorf("only %d invariants were found", len(entries))
	}
	for i, entry := range entries {
		if entry[1] != strconv.Itoa(i+1) {
			t.Errorf("invariant %s follows number %d", entry[1], i)
		}
		if tests[i+1] == "" {
			t.Errorf("no test's comment ends with the invariant %d", i+1)
		}
		delete(tests, i+1)
	}
	for number, file := range tests {
		t.Errorf("%s has the invariant %d, which does not exist", file, number)
	}
}

// invariantsOf returns the numbers at the ends of a file's comments.
func invariantsOf(text string) (numbers []int) {
	for _, found := range carried.FindAllStringSubmatch(text, -1) {
		for _, digits := range strings.FieldsFunc(found[1], func(r rune) bool { return r < '0' || r > '9' }) {
			number, _ := strconv.Atoi(digits) // the pattern has digits only
			numbers = append(numbers, number)
		}
	}
	return numbers
}

// TestInvariantsOf checks which comments carry numbers.
func TestInvariantsOf(t *testing.T) {
	const text = "// TestA checks invariant 1.\n// Invariant 2.\nfunc TestA() {}\n\n// Invariants 3, 4,\n// 5.\nfunc FuzzB() {}\n\n" +
		"// Invariant 6.\nfunc helper() {}\n\n// Invariant 7. It holds.\nfunc TestC() {}\n"
	if got := invariantsOf(text); !slices.Equal(got, []int{2, 3, 4, 5}) {
		t.Errorf("the numbers are %v, want 2 to 5", got)
	}
}
