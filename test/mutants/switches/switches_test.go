package switches

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// results evaluates each function on operands for which the mutated operator has another result.
func results() string {
	return fmt.Sprint(Flip(0, true), Less(1, 1, 1), LessEqual(2, 1, 1), Greater(3, 1, 1), GreaterEqual(4, 1, 1),
		Add(5, 2, 3), Sub(6, 2, 3), Mul(7, 6, 3), Quo(8, 6, 3), Rem(9, 7, 4))
}

// TestActive checks that exactly the active mutation's result changes.
func TestActive(t *testing.T) {
	defer func(id int) { active = id }(active)
	for id, want := range map[int]string{
		-1: "true false true false true 5 -1 18 2 3",
		0:  "false false true false true 5 -1 18 2 3",
		1:  "true true true false true 5 -1 18 2 3",
		2:  "true false false false true 5 -1 18 2 3",
		3:  "true false true true true 5 -1 18 2 3",
		4:  "true false true false false 5 -1 18 2 3",
		5:  "true false true false true -1 -1 18 2 3",
		6:  "true false true false true 5 5 18 2 3",
		7:  "true false true false true 5 -1 2 2 3",
		8:  "true false true false true 5 -1 18 18 3",
		9:  "true false true false true 5 -1 18 2 28",
	} {
		active = id
		if got := results(); got != want {
			t.Errorf("mutation %d: %s, want %s", id, got, want)
		}
		// Away from the bound both operators have one result.
		if !Less(1, 1, 2) || Less(1, 2, 1) || !LessEqual(2, 1, 2) || LessEqual(2, 2, 1) ||
			!Greater(3, 2, 1) || Greater(3, 1, 2) || !GreaterEqual(4, 2, 1) || GreaterEqual(4, 1, 2) {
			t.Errorf("mutation %d: a comparison of different operands changes", id)
		}
	}
}

// TestRecord checks that a mutation is recorded once when it is evaluated, once more when it has an
// effect, and never again.
func TestRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "record")
	defer func(d descriptor) { record = d }(record)
	record = open(name)
	for range 2 {
		Less(21, 1, 2)
		Add(22, 1, 0)
		Mul(23, 0, 0) // the mutated operator would panic
		Flip(24, false)
	}
	Less(21, 2, 2)
	Less(21, 2, 2)
	got, err := os.ReadFile(name)
	if want := "21\n22\n23\n23\n24\n24\n21\n"; err != nil || string(got) != want {
		t.Errorf("recorded %q (%v), want %q", got, err, want)
	}
}
