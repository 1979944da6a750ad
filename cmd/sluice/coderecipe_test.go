package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
	"sluice/test/testenv"
	"sluice/wire"
)

// refusals responds to each request with an error, and counts them.
type refusals struct {
	row      wire.CodeRow
	requests int
}

// RoundTrip implements http.RoundTripper.
func (r *refusals) RoundTrip(request *http.Request) (*http.Response, error) {
	r.requests++
	body := fmt.Sprintf(`{"status":%d,"code":%q,"detail":"A sentence.","requestId":"R1"}`, r.row.Status, r.row.Code)
	return &http.Response{
		StatusCode: r.row.Status, ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/problem+json"}}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// refused returns the Go client's error if a service responds with a code, and how many requests it
// sent.
func refused(ctx context.Context, row wire.CodeRow) (int, error) {
	service := &refusals{row: row}
	c, err := client.New("http://localhost:9090", client.Options{Transport: service, MaxAttempts: 2})
	if err != nil {
		return 0, err
	}
	_, err = c.Use(ctx, "session", client.UseOptions{})
	return service.requests, err
}

// TestRecipeOfAnErrorCode follows the recipe of CONTRIBUTING.md: with a row in wire.Codes the
// client knows a new code's meaning, whether to repeat the request, and the command its exit code.
func TestRecipeOfAnErrorCode(t *testing.T) {
	codes := wire.Codes
	defer func() { wire.Codes = codes }()
	for _, test := range []struct {
		row      wire.CodeRow
		class    error
		exit     int
		requests int
	}{
		{wire.CodeRow{Code: "widget_busy", Status: 409, Retry: wire.RetryLater}, client.ErrConflict, cli.ExitRefused, 2},
		{wire.CodeRow{Code: "widget_stale", Status: 409}, client.ErrConflict, cli.ExitRefused, 1},
		{wire.CodeRow{Code: "widget_not_found", Status: 404}, client.ErrNotFound, cli.ExitNotFound, 1},
		{wire.CodeRow{Code: "widget_malformed", Status: 400}, client.ErrInvalid, cli.ExitFailed, 1},
		{wire.CodeRow{Code: "widgets_away", Status: 503, Retry: wire.RetryLater}, client.ErrUnavailable, cli.ExitFailed, 2},
	} {
		wire.Codes = append(slices.Clone(codes), test.row)
		synctest.Test(t, func(t *testing.T) {
			requests, err := refused(t.Context(), test.row)
			if !errors.Is(err, test.class) || cli.ExitCode(err) != test.exit || requests != test.requests {
				t.Errorf("%+v: %v with exit code %d after %d requests", test.row, err, cli.ExitCode(err), requests)
			}
		})
	}
}

// TestEveryStatusHasAnExitCode checks the meaning of all codes' statuses to the client and to
// scripts.
func TestEveryStatusHasAnExitCode(t *testing.T) {
	want := map[int]int{
		400: cli.ExitFailed, 401: cli.ExitRefused, 402: cli.ExitRefused, 403: cli.ExitRefused, 404: cli.ExitNotFound, 405: cli.ExitFailed, 408: cli.ExitFailed, 409: cli.ExitRefused,
		410: cli.ExitNotFound, 411: cli.ExitFailed, 412: cli.ExitRefused, 413: cli.ExitFailed, 415: cli.ExitFailed, 416: cli.ExitFailed, 421: cli.ExitFailed, 422: cli.ExitFailed,
		429: cli.ExitRefused, 499: cli.ExitFailed, 500: cli.ExitFailed, 503: cli.ExitFailed, 507: cli.ExitRefused,
	}
	for _, row := range wire.Codes {
		code, decided := want[row.Status]
		if row.Code == wire.CodeRouteNotFound { // the URL is wrong, and nothing is known about blobs
			code = cli.ExitUsage
		}
		if got := cli.ExitCode(&client.Error{Status: row.Status, Code: row.Code}); row.Status != 0 && (!decided || got != code) {
			t.Errorf("%s with status %d: exit code %d, want %d (decided: %t)", row.Code, row.Status, got, code, decided)
		}
	}
}

// TestRecipeNamesThePlacesOfAnErrorCode checks with a code that only the places that
// CONTRIBUTING.md's recipe names mention it.
func TestRecipeNamesThePlacesOfAnErrorCode(t *testing.T) {
	recipe := recipeOf(t, "An error code")
	places := []string{"docs/protocol.md", "httpapi/errors.go", "wire/codes.go"}
	for _, place := range append(places, "CHANGELOG.md") {
		if !strings.Contains(recipe, place) {
			t.Errorf("the recipe does not name %s", place)
		}
	}
	if found := mentions(t, []string{"deposit_on_chain", "CodeDepositOnChain"}, "."); !slices.Equal(found, places) {
		t.Errorf("the code is in %q, want %q", found, places)
	}
}

// recipeOf returns a section of CONTRIBUTING.md.
func recipeOf(t *testing.T, title string) string {
	t.Helper()
	root := testenv.Must(testenv.Root())(t)
	text := testenv.Must(os.ReadFile(filepath.Join(root, "CONTRIBUTING.md")))(t)
	_, recipe, _ := strings.Cut(string(text), "### "+title+"\n")
	recipe, _, _ = strings.Cut(recipe, "\n### ")
	return recipe
}

// mentions returns the Go files and the documents below some folders that contain any of the words,
// except tests, the changelog and the record of decisions.
func mentions(t *testing.T, words []string, folders ...string) (found []string) {
	t.Helper()
	root := testenv.Must(testenv.Root())(t)
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, entry os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"node_modules", "testdata", "decisions", "e2e"}, entry.Name())) {
				return filepath.SkipDir
			}
			extension := filepath.Ext(name)
			if entry.IsDir() || extension != ".go" && extension != ".md" || strings.HasSuffix(name, "_test.go") || entry.Name() == "CHANGELOG.md" {
				return nil
			}
			text, err := os.ReadFile(name)
			if err == nil && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(string(text), w) }) {
				relative, _ := filepath.Rel(root, name) // it is below the root
				found = append(found, filepath.ToSlash(relative))
			}
			return err
		})
		testenv.OK(t, err)
	}
	slices.Sort(found)
	return found
}
