package conformance_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/access"
	"sluice/conformance"
	"sluice/httpapi"
	"sluice/test/testenv"
)

const account = "0x00cd000000000000000000000000000000000000000000000000000000000001"

// TestServersConform runs all cases on servers of each kind. Together they skip none.
// Invariants 12, 21, 53, 54.
func TestServersConform(t *testing.T) {
	t.Parallel()
	hosted, key := openHosted(t, []string{account})
	open, anyAccount := openHosted(t, nil)
	office, administrator := openAdministered(t, []string{account})
	operated, operator := openAdministered(t, nil)
	runs := []struct {
		name    string
		handler *httpapi.Server
		options conformance.Options
	}{
		{"local", openService(t, access.ReadsPublic), conformance.Options{}},
		{"local, paid reads", openService(t, access.ReadsPaid), conformance.Options{}},
		{"hosted", hosted, conformance.Options{URL: "/sluice", Key: key, Account: account}},
		{"hosted, key for all accounts", open, conformance.Options{URL: "/sluice", Key: anyAccount, Match: regexp.MustCompile("^hosted/|^channel/open")}},
		{"hosted, administrator", office, conformance.Options{URL: "/sluice", Key: administrator, Account: account, Match: regexp.MustCompile("^admin/|^place/|^version/")}},
		{"hosted, operator", operated, conformance.Options{URL: "/sluice", Key: operator, Account: account, Match: regexp.MustCompile("^admin/|^place/|^version/")}},
	}
	checked := map[string]bool{}
	for _, run := range runs {
		run.options.URL, run.options.Level = serve(t, run.handler, nil)+run.options.URL, conformance.Extended
		report, err := conformance.Run(t.Context(), run.options, func(r conformance.Result) {
			switch r.Outcome {
			case conformance.Passed:
				checked[r.Name] = true
			case conformance.Failed:
				t.Errorf("%s: %s: %s", run.name, r.Name, r.Reason)
			}
		})
		testenv.OK(t, err)
		if len(report.Left) > 0 {
			t.Errorf("%s: left behind: %q", run.name, report.Left)
		}
	}
	for _, c := range conformance.Cases() {
		if !checked[c.Name] {
			t.Errorf("%s was skipped by all servers", c.Name)
		}
	}
}

// TestCases checks that there are enough cases, that their names are unique, and that their
// sections are headings of docs/protocol.md.
func TestCases(t *testing.T) {
	protocol, err := os.ReadFile("../docs/protocol.md")
	testenv.OK(t, err)
	lines := strings.Split(string(protocol), "\n")
	seen := map[string]bool{}
	cases := conformance.Cases()
	if len(cases) < 300 {
		t.Errorf("there are %d cases", len(cases))
	}
	for _, c := range cases {
		if seen[c.Name] {
			t.Errorf("two cases have the name %s", c.Name)
		}
		seen[c.Name] = true
		if !slices.Contains(lines, "## "+c.Section) && !slices.Contains(lines, "### "+c.Section) {
			t.Errorf("%s: docs/protocol.md has no section %q", c.Name, c.Section)
		}
	}
}
