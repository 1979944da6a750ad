package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/bytestore/memory"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/internal/testenv"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/session"
	"sluice/wire"
)

// failingMeta is a store. Its writes fail as over a lost connection. A write with an unknown
// outcome takes effect.
type failingMeta struct {
	*sqlstore.Store
	err atomic.Pointer[error]
}

// answer returns the result for a write that has taken effect, or has not.
func (s *failingMeta) answer(do func() error) error {
	fails := s.err.Load()
	if fails == nil {
		return do()
	}
	if errors.Is(*fails, database.ErrUnknownOutcome) {
		if err := do(); err != nil {
			return err
		}
	}
	return *fails
}

func (s *failingMeta) CommitBlob(ctx context.Context, b metastore.Blob, extents []metastore.Extent, precondition metastore.Precondition) (out metastore.Blob, err error) {
	err = s.answer(func() error {
		out, err = s.Store.CommitBlob(ctx, b, extents, precondition)
		return err
	})
	return out, err
}

func (s *failingMeta) PutPart(ctx context.Context, id string, part metastore.Part, extents []metastore.Extent) error {
	return s.answer(func() error { return s.Store.PutPart(ctx, id, part, extents) })
}

func (s *failingMeta) UseSession(ctx context.Context, id string, n int64, idem *ledger.Idempotency) (out ledger.Session, err error) {
	err = s.answer(func() error {
		out, err = s.Store.UseSession(ctx, id, n, idem)
		return err
	})
	return out, err
}

// failingBytes is a store. Its Puts fail, and its reads end after the given number of bytes.
type failingBytes struct {
	*memory.Store
	put      atomic.Pointer[error]
	response atomic.Pointer[brokenResponse]
}

type brokenResponse struct {
	after int64
	err   error
}

func (s *failingBytes) Put(ctx context.Context, key bytestore.Name, src io.Reader, size int64) error {
	if err := s.put.Load(); err != nil {
		return *err
	}
	return s.Store.Put(ctx, key, src, size)
}

func (s *failingBytes) Open(ctx context.Context, key bytestore.Name, off, n int64) (io.ReadCloser, error) {
	r, err := s.Store.Open(ctx, key, off, n)
	broken := s.response.Load()
	if err != nil || broken == nil {
		return r, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, broken.after), failingReader{broken.err}), r}, nil
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// newFailing starts a service over stores that can be made to fail.
func newFailing(t *testing.T) (*service, *failingMeta, *failingBytes) {
	t.Helper()
	meta, files := &failingMeta{}, &failingBytes{Store: memory.New()}
	s := newService(t, func(c *Config, s *Server) {
		if s != nil {
			return
		}
		var err error
		if meta.Store, err = sqlstore.OpenSQLite(testenv.MemoryDir(t)+"/meta.db", sqlstore.Options{}); err != nil {
			t.Fatal(err)
		}
		c.Blobs = blob.New(meta, files, blob.Options{})
		c.Sessions = session.New(meta, session.Options{Grant: session.DefaultGrant})
	})
	t.Cleanup(func() {
		if err := meta.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, meta, files
}

// TestOutagesAreNotTheClientsFault makes the stores fail as they do when the other end closes the
// connection, for which package io has the same error as for an incomplete body.
func TestOutagesAreNotTheClientsFault(t *testing.T) {
	s, meta, files := newFailing(t)
	const path = "/v1/blobs/0x1/n"
	small, large := "small", strings.Repeat("large", 40_000)
	for _, body := range []string{small, large} {
		if res, got := s.do(t, "PUT", fmt.Sprintf("%s-%d", path, len(body)), body); res.StatusCode != http.StatusNoContent {
			t.Fatalf("PUT: %d %s", res.StatusCode, got)
		}
	}
	granted, err := s.sessions.Grant(t.Context(), "", nil)
	testenv.OK(t, err)
	upload, err := s.blobs.Begin(t.Context(), blob.BeginOptions{Account: "0x1", Name: "parts", PartSize: 10})
	testenv.OK(t, err)
	usePath := "/v1/sessions/" + granted.ID + "/use"
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
		{"part, lost response", unknown, nil, nil, "PUT", "/v1/multipart-uploads/" + upload.ID + "/parts/0", small, wire.CodeOutcomeUnknown},
		{"use, lost response", unknown, nil, nil, "POST", usePath, "", wire.CodeOutcomeUnknown},
		{"small blob, no database", away, nil, nil, "PUT", path + "-away", small, wire.CodeUnavailable},
		{"use, no database", away, nil, nil, "POST", usePath, "", wire.CodeUnavailable},
		{"large blob, no object store", nil, cut, nil, "PUT", path + "-cut", large, wire.CodeOverloaded},
		{"read, no bytes", nil, nil, &brokenResponse{0, cut}, "GET", fmt.Sprintf("%s-%d", path, len(large)), "", wire.CodeOverloaded},
		{"read, some bytes", nil, nil, &brokenResponse{5000, cut}, "GET", fmt.Sprintf("%s-%d", path, len(large)), "", wire.CodeOverloaded},
		{"read, a truncated object", nil, nil, &brokenResponse{5000, io.EOF}, "GET", fmt.Sprintf("%s-%d", path, len(large)), "", wire.CodeInternal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for at, err := range map[*atomic.Pointer[error]]error{&meta.err: tc.meta, &files.put: tc.put} {
				at.Store(nil)
				if err != nil {
					at.Store(&err)
				}
			}
			files.response.Store(tc.response)
			res, body := s.do(t, tc.method, tc.path, tc.body)
			if !strings.Contains(body, fmt.Sprintf("%q", tc.want)) || res.StatusCode < http.StatusInternalServerError {
				t.Errorf("%d %s, want %s", res.StatusCode, body, tc.want)
			}
		})
	}
	for _, at := range []*atomic.Pointer[error]{&meta.err, &files.put} {
		at.Store(nil)
	}
	files.response.Store(nil)
	if res, body := s.do(t, "GET", path+"-lost", ""); body != small {
		t.Errorf("after a write without a response: %d %.40q", res.StatusCode, body)
	}
	if damaged := strings.Count(s.logged(), blob.ErrCorrupt.Error()); damaged != 1 {
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
	_, left := meta.Property(ended, "fact")
	left = errors.Join(left, meta.SetProperty(ended, "fact", "v"))
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, slow := meta.Property(late, "fact")
	slow = errors.Join(slow, meta.SetProperty(late, "fact", "v"))
	for _, c := range []struct {
		err    error
		status int
	}{{left, statusClientGone}, {slow, http.StatusServiceUnavailable}} {
		if c.err == nil {
			t.Fatal("a call whose context had ended succeeded")
		}
		meta.err.Store(&c.err)
		files.put.Store(nil)
		for _, body := range []string{"small", strings.Repeat("large", 40_000)} {
			if res, got := s.do(t, "PUT", "/v1/blobs/0x1/n", body); res.StatusCode != c.status {
				t.Errorf("PUT of %d bytes with %v: %d %s, want %d", len(body), c.err, res.StatusCode, got, c.status)
			}
		}
		meta.err.Store(nil)
		files.put.Store(&c.err)
		if res, got := s.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("large", 40_000)); res.StatusCode != c.status {
			t.Errorf("PUT of bytes with %v: %d %s, want %d", c.err, res.StatusCode, got, c.status)
		}
	}
}
