package httpapi

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/internal/connlimit"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/metering"
	"sluice/micropay"
	"sluice/wire"
)

// blobHeaders are the headers that describe a blob, a part of it, or the charge for it. An error
// response has none of them.
var blobHeaders = []string{
	"Accept-Ranges", wire.HeaderBlobExpires, wire.HeaderBlobVersion, wire.HeaderChunksetsCharged, wire.HeaderChunksetsLeft,
	"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length", "Content-Range",
	"Content-Security-Policy", "Content-Type", "Etag", "Expires", "Last-Modified", wire.HeaderReprDigest,
}

// newProblem returns an error response's body.
func newProblem(row exchange.Row, requestID string) wire.Problem {
	detail := exchange.Sentence(row.Detail)
	p := wire.Problem{
		Type:      "urn:sluice:error:" + string(row.Code),
		Title:     http.StatusText(row.Status),
		Status:    row.Status,
		Detail:    detail,
		Error:     detail,
		Code:      string(row.Code),
		RequestID: requestID,
	}
	if row.Status == http.StatusServiceUnavailable {
		retryable := row.RetryAfter > 0
		p.Retryable = &retryable
	}
	return p
}

// setProblem sets the header for an error response with a body of this length, and removes the
// fields that the handler has set for its own response. The version of a mark remains.
func setProblem(f *exchange.Fields, row exchange.Row, cause error, length int) {
	marked := f.Has(wire.HeaderBlobDeleted)
	maps.DeleteFunc(f.All(), func(name string, _ []string) bool {
		return slices.Contains(blobHeaders, name) && (!marked || name != wire.HeaderBlobVersion) || strings.HasPrefix(name, wire.HeaderBlobMeta)
	})
	if f.Has("Access-Control-Expose-Headers") {
		f.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	}
	var unmet *exchange.UnsatisfiedRange
	if errors.As(cause, &unmet) {
		f.Set("Content-Range", headers.UnsatisfiedRange(unmet.Size))
	}
	f.Set(wire.HeaderErrorCode, string(row.Code))
	f.Set("Content-Type", "application/problem+json")
	f.Set("Content-Length", strconv.Itoa(length))
	f.Set("Cache-Control", "no-store")
	f.SetRetryAfter(row, cause)
	if row.Status == http.StatusUnauthorized {
		f.Set("Www-Authenticate", challenge(row.Code))
	}
}

// refuse sets the fields of an error response and returns its body.
func (s *Server) refuse(x *exchange.Exchange, row exchange.Row, cause error) ([]byte, error) {
	p := newProblem(row, x.RequestID)
	setPaymentMembers(&p, cause, s.price)
	setDoubtMembers(&p, cause)
	var gone *metastore.ChangesGoneError
	if errors.As(cause, &gone) {
		p.Restart = gone.Restart.String()
	}
	body, err := encodeProblem(p)
	if err == nil {
		setProblem(&x.Fields, row, cause, len(body))
	}
	return body, err
}

// encodeProblem returns an error response's body as it is sent.
func encodeProblem(p wire.Problem) ([]byte, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a problem: %w", err)
	}
	return append(body, '\n'), nil // for terminals
}

// setPaymentMembers sets the members in a problem that a payer can act on. price returns a
// chunkset's price.
func setPaymentMembers(p *wire.Problem, err error, price func() int64) {
	var (
		short *metering.ShortfallError
		funds *ledger.InsufficientFundsError
		stale *ledger.StaleError
		limit *ledger.UnsettledLimitError
		bad   *micropay.Error
	)
	switch {
	case errors.As(err, &short):
		p.Required, p.Available = decimal(short.Required), decimal(short.Available)
	case errors.As(err, &funds):
		p.Required, p.Available = decimal(funds.Required), decimal(funds.Available)
	case errors.As(err, &limit):
		p.Limit, p.Unsettled = decimal(limit.Limit), decimal(limit.Unsettled)
		if limit.Expired > 0 {
			p.Expired = decimal(limit.Expired)
		}
	case errors.As(err, &stale):
		p.StoredMicropayment = base64.StdEncoding.EncodeToString(stale.Stored)
	case errors.As(err, &bad):
		p.Reason = string(bad.Reason)
		p.MinGas, p.MinGasPrice, p.MaxGasPrice = gas(bad.MinGas), gas(bad.MinGasPrice), gas(bad.MaxGasPrice)
	}
	if p.Status == http.StatusPaymentRequired {
		p.ChunksetPrice = decimal(price())
	}
}

// setDoubtMembers sets the ids by which a client can look up the channel, session or upload that
// its request may have made.
func setDoubtMembers(p *wire.Problem, err error) {
	var doubt *doubtError
	if errors.As(err, &doubt) {
		p.ChannelID, p.SessionID, p.UploadID = doubt.channelID, doubt.sessionID, doubt.uploadID
	}
}

// challenge returns the WWW-Authenticate for a 401 (RFC 6750, section 3).
func challenge(code wire.Code) string {
	if code == wire.CodeCredentialRequired {
		return `Bearer realm="sluice"`
	}
	return `Bearer realm="sluice", error="invalid_token"`
}

// ConnectionRefusal returns the responses to requests on connections over a limit, for
// connlimit.New. anyOrigin lets pages of every origin read them.
func ConnectionRefusal(anyOrigin bool) func(reason connlimit.Reason, head bool) []byte {
	return func(reason connlimit.Reason, head bool) []byte {
		row := exchange.TooManyConnections
		if reason == connlimit.TooManyFromAddress {
			row = exchange.TooManyFromAddress
		}
		response, err := refusal(row, head, anyOrigin)
		if err != nil {
			return nil
		}
		return response
	}
}

func refusal(row exchange.Row, head, anyOrigin bool) ([]byte, error) {
	p := newProblem(row, rand.Text())
	body, err := encodeProblem(p)
	if err != nil {
		return nil, err
	}
	all := http.Header{}
	header := exchange.NewFields(all)
	setProblem(&header, row, nil, len(body))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set(wire.HeaderRequestID, p.RequestID)
	if anyOrigin {
		header.Set("Access-Control-Allow-Origin", "*")
		header.Set("Access-Control-Expose-Headers", corsResponseHeaders)
	}
	response := http.Response{
		StatusCode: row.Status,
		ProtoMajor: 1, ProtoMinor: 1,
		Header:        all,
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
		Close:         true,
	}
	if head {
		response.Request = &http.Request{Method: http.MethodHead}
	}
	var out bytes.Buffer
	err = response.Write(&out)
	return out.Bytes(), err
}
