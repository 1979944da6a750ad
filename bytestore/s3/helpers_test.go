package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"sluice/bytestore"
	"sluice/bytestore/bytetest"
	"sluice/bytestore/s3"
	"sluice/test/testenv"
)

var prefixes atomic.Int64

// freshPrefix returns the configuration for an unused prefix on the server.
func freshPrefix(tb testing.TB, server *testenv.S3Server) s3.Config {
	tb.Helper()
	c, err := s3.ParseDSN(fmt.Sprintf("s3://%s/tests/%d?endpoint=http://%s", server.Bucket, prefixes.Add(1), server.Addr))
	testenv.OK(tb, err)
	return c
}

// mustOpen opens a store, which is closed when the test ends.
func mustOpen(tb testing.TB, c s3.Config, opt s3.Options) *s3.Store {
	tb.Helper()
	if opt.Staging == "" {
		opt.Staging = tb.TempDir()
	}
	s := testenv.Must(s3.Open(context.Background(), c, opt))(tb)
	testenv.AtEnd(tb, s.Close)
	return s
}

// harnesses returns harnesses on one server, each with an unused prefix.
func harnesses(server *testenv.S3Server) func(testing.TB) bytetest.Harness {
	return func(tb testing.TB) bytetest.Harness {
		c := freshPrefix(tb, server)
		return bytetest.Harness{Open: func() (bytestore.Store, error) { return mustOpen(tb, c, s3.Options{}), nil }}
	}
}

func newName() bytestore.Name { return bytestore.NewName(time.UnixMilli(1_700_000_000_000)) }

// content returns size pseudorandom bytes.
func content(seed byte, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

func put(t *testing.T, s *s3.Store, name bytestore.Name, data []byte) error {
	t.Helper()
	return s.Put(t.Context(), name, bytes.NewReader(data), int64(len(data)))
}

func mustPut(t *testing.T, s *s3.Store, data []byte) bytestore.Name {
	t.Helper()
	name := newName()
	testenv.OK(t, put(t, s, name, data))
	return name
}

// read reads a range to its end.
func read(ctx context.Context, s *s3.Store, name bytestore.Name, off, n int64) ([]byte, error) {
	r, err := s.Open(ctx, name, off, n)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return data, errors.Join(err, r.Close())
}

// wantObject fails the test unless the store has exactly data under name.
func wantObject(t *testing.T, s *s3.Store, name bytestore.Name, data []byte) {
	t.Helper()
	got, err := read(t.Context(), s, name, 0, int64(len(data)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !bytes.Equal(got, data) {
		t.Fatalf("%s: %d bytes that are not the %d put", name, len(got), len(data))
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}
