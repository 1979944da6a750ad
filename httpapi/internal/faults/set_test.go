package faults

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"sluice/test/testenv"
)

func mustParse(t *testing.T, texts ...string) (rules []Rule) {
	t.Helper()
	for _, text := range texts {
		r := testenv.Must(Parse(text))(t)
		rules = append(rules, r)
	}
	return rules
}

// picks returns the faults of n requests, each as text.
func picks(t *testing.T, s *Set, n int, q Request, own ...string) (list []string) {
	t.Helper()
	for range n {
		f := testenv.Must(s.Pick(q, own))(t)
		list = append(list, f.String())
	}
	return list
}

// TestFaultsAreRepeatable checks that a seed decides which requests have a fault, whatever other
// requests there are between them, and that another seed decides otherwise.
// Invariant 77.
func TestFaultsAreRepeatable(t *testing.T) {
	rules := mustParse(t, "PUT part 30%: drop-reply", "30%: status 500", "first 2: delay 1s")
	part, get := Request{Method: "PUT", Operation: Part}, Request{Method: "GET", Operation: Blob}
	first := picks(t, NewSet(7, rules), 200, part)
	if again := picks(t, NewSet(7, rules), 200, part); !slices.Equal(first, again) {
		t.Error("the same seed has other faults")
	}
	if other := picks(t, NewSet(8, rules), 200, part); slices.Equal(first, other) {
		t.Error("another seed has the same faults")
	}
	own := NewSet(7, mustParse(t, "PUT part 30%: drop-reply"))
	alone := picks(t, own, 200, part)
	mixed := NewSet(7, mustParse(t, "PUT part 30%: drop-reply"))
	var among []string
	for range 200 {
		picks(t, mixed, 3, get)
		among = append(among, picks(t, mixed, 1, part)...)
	}
	if !slices.Equal(alone, among) {
		t.Error("requests that do not match a rule change which of those that match have the fault")
	}
	_, counts := own.List()
	drops := int64(0)
	for _, f := range alone {
		if f == "drop-reply" {
			drops++
		}
	}
	if counts[0].Requests != 200 || counts[0].Injected != drops || drops < 35 || drops > 85 {
		t.Errorf("%+v, and %d faults of 200 requests", counts, drops)
	}
}

// TestRulesOfRequests checks which rule decides: the request's own rules first, then the first that
// applies.
func TestRulesOfRequests(t *testing.T) {
	s := NewSet(1, mustParse(t, "GET blob first 2: cut 1", "GET: status 500", "use: expired-session", "blob: expired-session", "full-disk"))
	get := Request{Method: "GET", Operation: Blob}
	if got := picks(t, s, 3, get); !slices.Equal(got, []string{"cut 1", "cut 1", "status 500"}) {
		t.Errorf("faults %q", got)
	}
	for _, test := range []struct {
		q    Request
		own  []string
		want string
	}{
		{get, []string{"slow 5"}, "slow 5"},
		{get, []string{"PUT: slow 5"}, "status 500"},
		{get, []string{"PUT: slow 5", "GET blob: cut 9"}, "cut 9"},
		{Request{Method: "HEAD", Operation: Blob}, nil, ""},
		{Request{Method: "HEAD", Operation: Blob, Session: true}, nil, "expired-session"},
		{Request{Method: "POST", Operation: Use}, nil, "expired-session"},
		{Request{Method: "PUT", Operation: Part}, nil, "full-disk"},
		{Request{Method: "POST", Operation: Session}, nil, "full-disk"},
		{Request{Method: "DELETE", Operation: Blob}, nil, ""},
		{Request{Method: "POST", Operation: Channel}, []string{"expired-session"}, "full-disk"},
	} {
		if got := picks(t, s, 1, test.q, test.own...); got[0] != test.want {
			t.Errorf("%+v with %q: %q, want %q", test.q, test.own, got[0], test.want)
		}
	}
	if _, err := s.Pick(get, []string{"nonsense"}); err == nil {
		t.Error("a rule that cannot be parsed is accepted")
	}
	s.Replace(1, nil)
	if got := picks(t, s, 1, get); got[0] != "" || s.Active() {
		t.Errorf("without rules: %q", got)
	}
	if got := picks(t, s, 100, get, "50%: drop-reply"); !slices.Contains(got, "") || !slices.Contains(got, "drop-reply") {
		t.Errorf("a share of a header: %q", got)
	}
}

// TestConcurrentPicks checks that exactly the first requests have a fault, however many are
// concurrent.
func TestConcurrentPicks(t *testing.T) {
	s := NewSet(1, mustParse(t, "first 100: drop-reply", "25%: status 500"))
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 100 {
				testenv.Check(t, testenv.Error(s.Pick(Request{Method: "GET", Operation: Info}, nil)))
				s.List()
			}
		})
	}
	work.Wait()
	_, counts := s.List()
	if got := fmt.Sprint(counts[0].Requests, counts[0].Injected, counts[1].Requests); got != "800 100 700" {
		t.Errorf("counts %s", got)
	}
}
