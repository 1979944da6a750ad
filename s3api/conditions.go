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

// writeConditions returns a write's conditions, or nil if there are none. Without an object,
// If-Match is no failed condition but NoSuchKey ("Conditional writes" in the Amazon S3 User Guide).
func (s *Server) writeConditions(h http.Header) (metastore.Precondition, error) {
	c := conditionsOf(h)
	if err := c.Malformed(); err != nil {
		return nil, err
	}
	holds := exchange.Precondition(c, s.blobs, exchange.ErrPrecondition)
	if len(h["If-Match"]) == 0 {
		return holds, nil
	}
	return func(current *metastore.Blob) error {
		if current == nil {
			return exchange.ErrNoBlob
		}
		return holds(current)
	}, nil
}

// forDeletion returns a deletion's conditions, which an object that does not exist satisfies:
// DeleteObject responds with 204 "if the object doesn't exist" (Amazon S3 API Reference). So a
// deletion can be repeated.
func forDeletion(conditions ...metastore.Precondition) metastore.Precondition {
	return func(current *metastore.Blob) error {
		if current == nil {
			return nil
		}
		for _, holds := range conditions {
			if holds == nil {
				continue
			}
			if err := holds(current); err != nil {
				return err
			}
		}
		return nil
	}
}
