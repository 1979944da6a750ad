package s3api

import (
	"net/http"
	"strings"

	"sluice/exchange"
	"sluice/exchange/headers"
	"sluice/metastore"
)

// conditionsOf returns a request's conditions. Clients of S3 may leave out a tag's quotes.
func conditionsOf(h http.Header) headers.Conditions {
	const match, noneMatch = "If-Match", "If-None-Match"
	if len(h[match]) == 0 && len(h[noneMatch]) == 0 {
		return headers.ParseConditions(h)
	}
	quoted := http.Header{"If-Modified-Since": h["If-Modified-Since"], "If-Unmodified-Since": h["If-Unmodified-Since"], "If-Range": h["If-Range"]}
	quoted[match], quoted[noneMatch] = quotedTags(h[match]), quotedTags(h[noneMatch])
	return headers.ParseConditions(quoted)
}

// quotedTags returns a condition's tags with quotes.
func quotedTags(values []string) []string {
	if len(values) != 1 || values[0] == "*" || strings.Contains(values[0], `"`) {
		return values
	}
	return []string{`"` + values[0] + `"`}
}

// writeConditions returns a write's conditions, or nil if there are none.
func (s *Server) writeConditions(h http.Header) (metastore.Precondition, error) {
	c := conditionsOf(h)
	if err := c.Malformed(); err != nil {
		return nil, err
	}
	return exchange.Precondition(c, s.blobs, exchange.ErrPrecondition), nil
}
