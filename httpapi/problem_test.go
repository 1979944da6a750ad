package httpapi

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/connlimit"
	"sluice/ledger"
	"sluice/micropay"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestConnectionRefusal checks the responses to requests on connections over a limit.
func TestConnectionRefusal(t *testing.T) {
	for _, tc := range []struct {
		reason connlimit.Reason
		status int
		code   wire.Code
	}{
		{connlimit.TooMany, http.StatusServiceUnavailable, wire.CodeOverloaded},
		{connlimit.TooManyFromAddress, http.StatusTooManyRequests, wire.CodeTooManyAtOnce},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			text := ConnectionRefusal(true)(tc.reason, method == http.MethodHead)
			res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), &http.Request{Method: method})
			testenv.OK(t, err)
			body, err := io.ReadAll(res.Body)
			testenv.Check(t, res.Body.Close())
			h := res.Header
			if err != nil || res.StatusCode != tc.status || !res.Close || h.Get("Retry-After") != "1" || h.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("%s: %s, %v, %v", method, res.Status, h, err)
			}
			if method == http.MethodHead {
				if len(body) > 0 {
					t.Errorf("HEAD has the body %q", body)
				}
				continue
			}
			wantProblem(t, res, string(body), tc.status, tc.code)
			p := decodedAs[wire.Problem](t, string(body))
			if retryable := p.Retryable != nil && *p.Retryable; retryable != (tc.status == http.StatusServiceUnavailable) {
				t.Errorf("problem %s", body)
			}
		}
	}
}

// TestUnsettledLimitSaysWhatHelps checks a refusal's body at the selling limit.
func TestUnsettledLimitSaysWhatHelps(t *testing.T) {
	for _, test := range []struct {
		limit ledger.UnsettledLimitError
		body  string // members that are added
		says  string
	}{
		{ledger.UnsettledLimitError{Limit: 30}, `30 0  `, "pay a smaller amount first"},
		{ledger.UnsettledLimitError{Limit: 30, Unsettled: 20}, `30 20  `, "wait until they are settled"},
		{ledger.UnsettledLimitError{Limit: 30, Unsettled: 20, Expired: 20}, `30 20 20 `, "collected after a renewal"},
	} {
		err := fmt.Errorf("buying: %w", &test.limit)
		p := newProblem(errorTable.RowOf(err), "id")
		setPaymentMembers(&p, err, func() int64 { return 3 })
		if got := fmt.Sprintf("%s %s %s ", p.Limit, p.Unsettled, p.Expired); got != test.body || p.Status != 402 || p.ChunksetPrice != "3" || !strings.Contains(p.Detail, test.says) {
			t.Errorf("%+v: %+v", test.limit, p)
		}
	}
	bad := &micropay.Error{Class: micropay.ClassPolicy, Reason: micropay.ReasonGas, MinGas: 12, MinGasPrice: 100, MaxGasPrice: 500}
	p := newProblem(errorTable.RowOf(bad), "id")
	if setPaymentMembers(&p, bad, func() int64 { return 3 }); p.MinGas != "12" || p.MinGasPrice != "100" || p.MaxGasPrice != "500" || p.Reason != "gas" {
		t.Errorf("%+v", p)
	}
}
