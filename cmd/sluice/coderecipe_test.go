package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"sluice/client"
	"sluice/cmd/sluice/internal/cli"
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
		410: cli.ExitNotFound, 411: cli.ExitFailed, 412: cli.ExitRefused, 413: cli.ExitFailed, 415: cli.ExitFailed, 416: cli.ExitFailed, 421: cli.ExitFailed, 422: cli.ExitFailed, 428: cli.ExitFailed,
		429: cli.ExitRefused, 451: cli.ExitRefused, 499: cli.ExitFailed, 500: cli.ExitFailed, 503: cli.ExitFailed, 507: cli.ExitRefused,
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
