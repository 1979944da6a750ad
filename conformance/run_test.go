package conformance_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/access"
	"sluice/conformance"
	"sluice/test/testenv"
)

// TestInterruptedRun ends the context within a run: the cases' blobs and uploads are removed, and
// the results until then are returned in the order of the cases.
func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	service := openService(t, access.ReadsPublic)
	ctx, stop := context.WithCancel(t.Context())
	var seen atomic.Int64
	url := serve(t, service, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/parts/") && seen.Add(1) == 3 {
				stop()
			}
			next.ServeHTTP(w, r)
		})
	})
	report, err := conformance.Run(ctx, conformance.Options{URL: url, Level: conformance.Extended, Match: regexp.MustCompile("^(blob|upload)/")}, func(conformance.Result) {})
	if !errors.Is(err, context.Canceled) || report.Failed > 0 || len(report.Left) > 0 {
		t.Errorf("%v, %d cases failed, and %q are left", err, report.Failed, report.Left)
	}
	var got, want []string
	for _, r := range report.Results {
		got = append(got, r.Name)
	}
	for _, c := range conformance.Cases() {
		want = append(want, c.Name)
	}
	if len(got) == 0 || !slices.IsSortedFunc(got, func(a, b string) int { return slices.Index(want, a) - slices.Index(want, b) }) {
		t.Errorf("the results of %d cases are not in their order: %q", len(got), got)
	}
	after := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/v1/accounts", nil)
	request.Host = "localhost"
	service.ServeHTTP(after, request)
	if strings.TrimSpace(after.Body.String()) != `{"accounts":[]}` {
		t.Errorf("after the interruption: %s", after.Body)
	}
}

// TestLeftovers checks that blobs and uploads that a server does not remove are named.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	url := serve(t, openService(t, access.ReadsPublic), swallowing(deletes, 405, ""))
	report, err := conformance.Run(t.Context(), conformance.Options{URL: url, Match: regexp.MustCompile("^blob/round-trip$")}, func(conformance.Result) {})
	testenv.OK(t, err)
	if report.Passed != 1 || report.Conforms() || len(report.Left) == 0 || !strings.Contains(strings.Join(report.Left, " "), "/conformance-") {
		t.Errorf("%d cases passed, and %q are left", report.Passed, report.Left)
	}
}

// TestRateLimitIsWaitedFor checks that a request is repeated when the server asks for it.
func TestRateLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	url := serve(t, openService(t, access.ReadsPublic), func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if sent.Add(1)%2 == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	report, err := conformance.Run(t.Context(), conformance.Options{URL: url, Jobs: 1, Match: regexp.MustCompile("^blob/(empty|range)$")}, func(conformance.Result) {})
	testenv.OK(t, err)
	if report.Passed != 2 || report.Failed > 0 {
		t.Errorf("%+v", report.Results)
	}
}

// TestUnusableServers checks the errors of runs without a single case.
func TestUnusableServers(t *testing.T) {
	t.Parallel()
	hosted, key := openHosted(t, []string{"mine"})
	url := serve(t, hosted, nil) + "/sluice"
	for _, test := range []struct {
		options conformance.Options
		want    string
	}{
		{conformance.Options{URL: "localhost:9090"}, "is not an http or https URL"},
		{conformance.Options{URL: "http://127.0.0.1:1"}, "connection refused"},
		{conformance.Options{URL: url}, "requires an API key"},
		{conformance.Options{URL: url, Key: "wrong"}, "does not accept the key"},
		{conformance.Options{URL: url, Key: key}, "state another with --account"},
	} {
		if _, err := conformance.Run(t.Context(), test.options, func(conformance.Result) {}); !errors.Is(err, conformance.ErrUnusable) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.options, err, test.want)
		}
	}
}

// TestJUnit checks a report with one case of each outcome.
func TestJUnit(t *testing.T) {
	t.Parallel()
	url := serve(t, openService(t, access.ReadsPublic), losing(gets, "Etag"))
	report, err := conformance.Run(t.Context(), conformance.Options{URL: url, Level: conformance.Extended, Match: regexp.MustCompile("^(blob/empty|get/headers|paid/both)$")}, func(conformance.Result) {})
	testenv.OK(t, err)
	var text bytes.Buffer
	testenv.OK(t, report.WriteJUnit(&text))
	var suite struct {
		Cases []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
			} `xml:"failure"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testcase"`
	}
	testenv.OK(t, xml.Unmarshal(text.Bytes(), &suite))
	if c := suite.Cases; len(c) != 3 || c[0].Failure != nil || c[0].Skipped != nil ||
		c[1].Failure == nil || !strings.Contains(c[1].Failure.Message, "ETag") || c[2].Skipped == nil || c[2].Skipped.Message != "needs paid reads" {
		t.Errorf("%s", &text)
	}
}
