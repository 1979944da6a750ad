package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/integrity"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestOutagesAreNotTheClientsFault makes the stores fail as they do when the other end closes the
// connection, for which package io has the same error as for an incomplete body.
// Invariant 61.
func TestOutagesAreNotTheClientsFault(t *testing.T) {
	s, meta, files := newFailing(t)
	const path, stored = "/v1/blobs/0x1/n", "/v1/blobs/0x1/stored"
	small, large := "small", strings.Repeat("large", 40_000)
	s.want(t, 204, "PUT", stored, large)
	part := s.newUpload(t, "0x1", "parts", "") + "/parts/0"
	usePath := "/v1/sessions/" + s.newSession(t) + "/use"
	unknown := fmt.Errorf("commit: %w: %w", database.ErrUnknownOutcome, io.ErrUnexpectedEOF)
	away := fmt.Errorf("%w: %w", database.ErrUnavailable, io.ErrUnexpectedEOF)
	cut := fmt.Errorf("%w: the responses end too early: %w", bytestore.ErrOverloaded, io.ErrUnexpectedEOF)
	both := fmt.Errorf("%w: %w", blob.ErrDigestMismatch, unknown) // whatever else it wraps
	for _, tc := range []struct {
		name         string
		meta, put    error
		response     *brokenResponse
		method, path string
		body         string
		want         wire.Code
	}{
		{"small blob, lost response", unknown, nil, nil, "PUT", path + "-lost", small, wire.CodeOutcomeUnknown},
		{"large blob, lost response", unknown, nil, nil, "PUT", path + "-lost", large, wire.CodeOutcomeUnknown},
		{"lost response wrapped in another error", both, nil, nil, "PUT", path + "-lost", small, wire.CodeOutcomeUnknown},
		{"part, lost response", unknown, nil, nil, "PUT", part, small, wire.CodeOutcomeUnknown},
		{"use, lost response", unknown, nil, nil, "POST", usePath, "", wire.CodeOutcomeUnknown},
		{"small blob, no database", away, nil, nil, "PUT", path + "-away", small, wire.CodeUnavailable},
		{"use, no database", away, nil, nil, "POST", usePath, "", wire.CodeUnavailable},
		{"large blob, no object store", nil, cut, nil, "PUT", path + "-cut", large, wire.CodeOverloaded},
		{"read, no bytes", nil, nil, &brokenResponse{0, cut}, "GET", stored, "", wire.CodeOverloaded},
		{"read, some bytes", nil, nil, &brokenResponse{5000, cut}, "GET", stored, "", wire.CodeOverloaded},
		{"read, a truncated object", nil, nil, &brokenResponse{5000, io.EOF}, "GET", stored, "", wire.CodeDamaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			meta.fail(tc.meta)
			files.fail(tc.put)
			files.response.Store(tc.response)
			res, body := s.do(t, tc.method, tc.path, tc.body)
			if !strings.Contains(body, fmt.Sprintf("%q", tc.want)) || res.StatusCode < http.StatusInternalServerError {
				t.Errorf("%d %s, want %s", res.StatusCode, body, tc.want)
			}
		})
	}
	meta.fail(nil)
	files.fail(nil)
	files.response.Store(nil)
	if res, body := s.do(t, "GET", path+"-lost", ""); body != small {
		t.Errorf("after a write without a response: %d %.40q", res.StatusCode, body)
	}
	if damaged := strings.Count(s.logged(), integrity.ErrCorrupt.Error()); damaged != 1 {
		t.Errorf("%d reads are logged as damage; one object is truncated", damaged)
	}
}

// TestEndedContextsAreNotInternal makes writes and reads fail because a context ended, the
// request's or the store's: this is reported as a disconnected client or as an overload, and never
// as an internal error.
func TestEndedContextsAreNotInternal(t *testing.T) {
	s, meta, files := newFailing(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	const path = "/v1/blobs/0x1/n"
	large := strings.Repeat("large", 40_000)
	for ctx, status := range map[context.Context]int{ended: wire.CodeClientGone.Row().Status, late: 503} {
		failed := errors.Join(testenv.Error(meta.Property(ctx, "fact")), meta.SetProperty(ctx, "fact", "v"))
		if failed == nil {
			t.Fatal("a call whose context had ended succeeded")
		}
		meta.fail(failed)
		s.want(t, status, "PUT", path, "small")
		s.want(t, status, "PUT", path, large)
		meta.fail(nil)
		files.fail(failed)
		s.want(t, status, "PUT", path, large)
		files.fail(nil)
	}
}
