package instance

import "testing"

// TestNoProgressWithoutAPhase checks that a phase which does not exist in an instance, such as the
// pages of PostgreSQL's tables, is not reported.
func TestNoProgressWithoutAPhase(t *testing.T) {
	var got []Progress
	r := newReporter(func(p Progress) { got = append(got, p) }, nil)
	r.end()
	if len(got) != 0 {
		t.Errorf("progress before the first phase: %+v", got)
	}
	r.begin(PhaseBooks, 1)
	r.end()
	if want := (Progress{Phase: PhaseBooks, Total: 1, Ended: true}); len(got) != 2 || got[1] != want {
		t.Errorf("progress is %+v, want %+v in the end", got, want)
	}
}
