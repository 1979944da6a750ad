package s3

import (
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/histogram"
)

// Operation is a kind of request to the object store.
type Operation string

// The operations.
const (
	OpPut    Operation = "put"    // PutObject
	OpGet    Operation = "get"    // GetObject
	OpHead   Operation = "head"   // HeadObject and HeadBucket
	OpDelete Operation = "delete" // DeleteObject and DeleteObjects
	OpList   Operation = "list"   // ListObjectsV2 and questions about the bucket
)

// Operations are all operations.
var Operations = []Operation{OpPut, OpGet, OpHead, OpDelete, OpList}

// RequestStats are the figures of one operation's requests since the Store was opened.
type RequestStats struct {
	Seconds *histogram.Histogram // from the request to the response's headers, or to the error
	Errors  int64                // requests without a response, or with one that is an error
}

type requestCounts struct {
	seconds *histogram.Histogram
	errors  atomic.Int64
}

func newRequestCounts() map[Operation]*requestCounts {
	counts := map[Operation]*requestCounts{}
	for _, op := range Operations {
		counts[op] = &requestCounts{seconds: histogram.Seconds()}
	}
	return counts
}

// countingTransport counts requests by their operation.
type countingTransport struct {
	http.RoundTripper
	counts map[Operation]*requestCounts
}

// RoundTrip implements http.RoundTripper.
func (t countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	c, began := t.counts[operationOf(r)], time.Now()
	response, err := t.RoundTripper.RoundTrip(r)
	c.seconds.Since(began)
	if err != nil || !expected(response.StatusCode) {
		c.errors.Add(1)
	}
	return response, err
}

func operationOf(r *http.Request) Operation {
	switch query := r.URL.Query(); {
	case r.Method == http.MethodPut:
		return OpPut
	case r.Method == http.MethodHead:
		return OpHead
	case r.Method == http.MethodDelete, r.Method == http.MethodPost:
		return OpDelete
	case query.Has("list-type"), query.Has("location"):
		return OpList
	default:
		return OpGet
	}
}

func expected(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		return true
	}
	return status < http.StatusBadRequest
}
