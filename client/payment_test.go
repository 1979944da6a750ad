package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/access"
	"sluice/client"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/wire"
)

// isRead reports whether r reads a blob's content.
func isRead(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/v1/blobs/")
}

// paidBlob stores a blob of 2.5 chunksets and returns its content.
func paidBlob(t testing.TB, c *client.Client) []byte {
	t.Helper()
	content := bytes.Repeat([]byte("sluice!\n"), wire.ChunksetSize*5/2/8)
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{})))
	return content
}

// all reads a Reader to its end.
func all(r *client.Reader, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}

func readAll(t testing.TB, c *client.Client, o client.GetOptions) ([]byte, error) {
	t.Helper()
	return all(c.Get(t.Context(), "team", "a", o))
}

// TestPaidReads checks the charge for each kind of read, that the payer buys the needed chunksets,
// and that reads share a Payment's limit.
func TestPaidReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, newService(t, serviceOptions{price: 3}))
		want := paidBlob(t, c)
		testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "empty", strings.NewReader(""), client.PutOptions{})))
		p := newPayer(t, c, testenv.MemoryDir(t), func(o *client.PayerOptions) { o.Chunksets = 4 })
		shared := &client.Payment{Payer: p, MaxChunksets: 12}
		total := int64(0)
		for _, test := range []struct {
			name   string
			charge int64
			read   func(client.GetOptions) ([]byte, error)
			want   []byte
		}{
			{"Get", 3, func(o client.GetOptions) ([]byte, error) { return readAll(t, c, o) }, want},
			{"GetRange over a boundary", 2, func(o client.GetOptions) ([]byte, error) {
				return all(c.GetRange(t.Context(), "team", "a", wire.ChunksetSize-1, 2, o))
			}, want[wire.ChunksetSize-1:][:2]},
			{"GetRange of the end", 1, func(o client.GetOptions) ([]byte, error) {
				return all(c.GetRange(t.Context(), "team", "a", int64(len(want)-5), -1, o))
			}, want[len(want)-5:]},
			{"ReadAt", 1, func(o client.GetOptions) ([]byte, error) {
				object, err := c.Open(t.Context(), "team", "a", o)
				if err != nil {
					return nil, err
				}
				p := make([]byte, 10)
				n, err := object.ReadAt(p, wire.ChunksetSize+5)
				return p[:n], errors.Join(err, object.Close())
			}, want[wire.ChunksetSize+5:][:10]},
			{"Download", 3, func(o client.GetOptions) ([]byte, error) {
				var w writerAt
				_, err := c.Download(t.Context(), "team", "a", &w, client.DownloadOptions{GetOptions: o, RangeSize: 1 << 20})
				return w.bytes, err
			}, want},
			{"an empty blob", 0, func(o client.GetOptions) ([]byte, error) {
				return all(c.Get(t.Context(), "team", "empty", o))
			}, nil},
		} {
			got, err := test.read(client.GetOptions{Payment: shared})
			if err != nil || !bytes.Equal(got, test.want) {
				t.Fatalf("%s: %d bytes, %v", test.name, len(got), err)
			}
			total += test.charge
			if shared.Charged() != total || shared.InDoubt() != 0 {
				t.Fatalf("%s: charged %d, want %d", test.name, shared.Charged(), total)
			}
		}
		left := func() int64 {
			s := testenv.Must(c.Session(t.Context(), status(t, p).SessionID))(t)
			if ch, err := p.Channel(t.Context()); err != nil || ch.Accepted != 3*uint64(s.ChunksetsTotal) || s.ChunksetsTotal-s.ChunksetsLeft != shared.Charged() {
				t.Errorf("channel %+v, %v; session %+v, charged %d", ch, err, s, shared.Charged())
			}
			return s.ChunksetsLeft
		}
		// 10 of 12 are charged: a read of 3 is beyond the limit and costs nothing.
		if got := left(); got < 2 {
			t.Errorf("%d left", got)
		}
		o := client.GetOptions{Payment: shared}
		testenv.Is(t, testenv.Error(readAll(t, c, o)), client.ErrPaymentRequired, "beyond the limit")
		o.IfMatch = `"other"`
		testenv.Is(t, testenv.Error(readAll(t, c, o)), client.ErrPreconditionFailed, "a false condition")
		testenv.Equal(t, shared.Charged(), 10, "the charge")
		left()
	})
}

// TestPaidReadIsContinuedWithinItsLimit checks that a paid read continues by range after its
// response was lost or cut, that a lost response counts as charged, and that nothing is requested
// beyond the limit.
// Invariant 144.
func TestPaidReadIsContinuedWithinItsLimit(t *testing.T) {
	t.Parallel()
	const cutAt = wire.ChunksetSize * 3 / 2
	for name, test := range map[string]struct {
		fault            fault.Kind
		limit            int64
		requests         int
		charged, inDoubt int64
		want             error
	}{
		"cut, no limit":            {fault.Tear, 0, 2, 5, 0, nil},
		"cut, limit suffices":      {fault.Tear, 5, 2, 5, 0, nil},
		"cut, limit too small":     {fault.Tear, 4, 2, 3, 0, client.ErrPaymentRequired},
		"cut, limit of one read":   {fault.Tear, 3, 1, 3, 0, client.ErrPaymentRequired},
		"no answer, no limit":      {fault.Lose, 0, 2, 6, 3, nil},
		"no answer, limit":         {fault.Lose, 6, 2, 6, 3, nil},
		"no answer, limit reached": {fault.Lose, 5, 1, 3, 3, client.ErrOutcomeUnknown},
		"not delivered":            {fault.Fail, 6, 2, 6, 3, nil},
		"limit below the blob":     {fault.None, 2, 1, 0, 0, client.ErrPaymentRequired},
	} {
		runInBubble(t, name, func(t *testing.T) {
			s := newService(t, serviceOptions{price: 3})
			var ranges []string
			c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
				if !isRead(r) {
					return s.RoundTrip(r)
				}
				if r.Body == nil || r.GetBody != nil {
					t.Error("net/http could send the request again by itself")
				}
				if r.Header.Get("Session-Id") == "" || r.Header.Get("Max-Chunksets") == "" {
					t.Errorf("header %v", r.Header)
				}
				ranges = append(ranges, r.Header.Get("Range"))
				if len(ranges) > 1 {
					return s.RoundTrip(r)
				}
				if test.fault != fault.Tear {
					return (&faulty{s, func(*http.Request) fault.Kind { return test.fault }}).RoundTrip(r)
				}
				resp, err := s.RoundTrip(r)
				if err == nil {
					resp.Body = fault.Torn(resp.Body, cutAt)
				}
				return resp, err
			}))
			want := paidBlob(t, c)
			p := newPayer(t, c, testenv.MemoryDir(t))
			testenv.OK(t, testenv.Error(p.Ensure(t.Context(), 1)))
			payment := &client.Payment{Payer: p, MaxChunksets: test.limit}
			got, err := readAll(t, c, client.GetOptions{Payment: payment})
			if !errors.Is(err, test.want) || err == nil && !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v; want %v", len(got), err, test.want)
			}
			if len(ranges) != test.requests || payment.Charged() != test.charged || payment.InDoubt() != test.inDoubt {
				t.Errorf("%d requests %q, charged %d, in doubt %d", len(ranges), ranges, payment.Charged(), payment.InDoubt())
			}
			if test.fault == fault.Tear && test.requests == 2 && ranges[1] != fmt.Sprintf("bytes=%d-%d", cutAt, len(want)-1) {
				t.Errorf("ranges %q", ranges)
			}
		})
	}
}

// TestPaidReadIsNotReplayed checks that net/http does not send a paid GET again when a connection
// that was kept open turns out to be closed after the request was sent, as it does with other GETs.
// Invariant 144.
func TestPaidReadIsNotReplayed(t *testing.T) {
	s := newService(t, serviceOptions{})
	var reads atomic.Int64
	closing := atomic.Bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isRead(r) || !closing.Load() {
			s.handler.ServeHTTP(w, r)
			return
		}
		reads.Add(1)
		closing.Store(false)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close() // without a response
	}))
	defer server.Close()
	c := testenv.Must(client.New(server.URL, client.Options{}))(t)
	defer c.CloseIdleConnections()
	testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader("hello"), client.PutOptions{})))
	payment := &client.Payment{Payer: newPayer(t, c, testenv.MemoryDir(t)), MaxChunksets: 2}
	if got, err := readAll(t, c, client.GetOptions{Payment: payment}); err != nil || string(got) != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	closing.Store(true) // a connection is open and idle
	testenv.Is(t, testenv.Error(readAll(t, c, client.GetOptions{Payment: payment})), client.ErrOutcomeUnknown, "a purchase without an answer")
	if reads.Load() != 1 || payment.Charged() != 2 || payment.InDoubt() != 1 {
		t.Errorf("%d requests, charged %d, in doubt %d", reads.Load(), payment.Charged(), payment.InDoubt())
	}
}

// TestNothingIsBoughtWithoutNeed checks that reads that are free buy nothing, and that a download
// of a small blob buys a single chunkset.
// Invariant 149.
func TestNothingIsBoughtWithoutNeed(t *testing.T) {
	t.Parallel()
	for reads, want := range map[access.Reads]uint64{access.ReadsPublic: 0, access.ReadsPaid: 3} {
		t.Run(string(reads), func(t *testing.T) {
			c := newClient(t, newService(t, serviceOptions{reads: reads, price: 3}))
			for name, text := range map[string]string{"a": "hello", "empty": ""} {
				testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", name, strings.NewReader(text), client.PutOptions{})))
			}
			p := newPayer(t, c, testenv.MemoryDir(t), func(o *client.PayerOptions) { o.Chunksets, o.MaxSpend = 1, 3 })
			o := client.DownloadOptions{GetOptions: client.GetOptions{Payment: &client.Payment{Payer: p}}}
			dir := testenv.MemoryDir(t)
			for _, name := range []string{"empty", "a"} {
				if _, err := c.DownloadFile(t.Context(), "team", name, filepath.Join(dir, name), o); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if got := status(t, p); got.Spent != want || got.Added != want || uint64(o.Payment.Charged())*3 != want {
				t.Errorf("%+v, charged %d, want %d", got, o.Payment.Charged(), want)
			}
			_, err := c.DownloadFile(t.Context(), "team", "none", filepath.Join(dir, "none"), o)
			checkMessage(t, err, client.ErrNotFound, "blob_not_found")
		})
	}
}

// TestNothingIsBoughtBeyondTheLimit checks that a read above MaxChunksets buys nothing, and that a
// range that ends after the blob buys only the blob's chunksets.
// Invariant 149.
func TestNothingIsBoughtBeyondTheLimit(t *testing.T) {
	c := newClient(t, newService(t, serviceOptions{price: 3}))
	paidBlob(t, c)
	p := newPayer(t, c, testenv.MemoryDir(t), func(o *client.PayerOptions) { o.Chunksets = 1 })
	for _, test := range []struct {
		limit, length int64
		want          error
		spent         uint64
	}{{2, -1, client.ErrPaymentRequired, 0}, {2, wire.ChunksetSize + 1, nil, 6}, {2, -1, client.ErrPaymentRequired, 6}, {3, 1 << 40, nil, 15}} {
		o := client.GetOptions{Payment: &client.Payment{Payer: p, MaxChunksets: test.limit}}
		_, err := all(c.GetRange(t.Context(), "team", "a", 0, test.length, o))
		if !errors.Is(err, test.want) || status(t, p).Spent != test.spent {
			t.Errorf("%+v: %v, %+v", test, err, status(t, p))
		}
	}
}

// TestWhatWasPaidIsReceived checks that a download's paid ranges are received to their ends if the
// budget does not suffice for another, and that a later call buys only the rest.
// Invariant 149.
func TestWhatWasPaidIsReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, serviceOptions{price: 3})
		c := newClient(t, roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := s.RoundTrip(r)
			if err == nil && isRead(r) {
				resp.Body = &lateBody{r.Context(), resp.Body}
			}
			return resp, err
		}))
		want := paidBlob(t, c)
		dir := testenv.MemoryDir(t)
		path := filepath.Join(dir, "a")
		for _, test := range []struct {
			budget uint64
			want   error
			bought int64
		}{{6, client.ErrBudget, 2}, {9, nil, 1}} {
			p := newPayer(t, c, dir, func(o *client.PayerOptions) { o.Chunksets, o.MaxSpend = 1, test.budget })
			payment := &client.Payment{Payer: p}
			_, err := c.DownloadFile(t.Context(), "team", "a", path, client.DownloadOptions{GetOptions: client.GetOptions{Payment: payment}, RangeSize: 1 << 20})
			if !errors.Is(err, test.want) || payment.Charged() != test.bought || status(t, p).Added != 3*uint64(test.bought) || status(t, p).Spent != test.budget {
				t.Errorf("%v, charged %d, %+v; want %+v", err, payment.Charged(), status(t, p), test)
			}
		}
		checkContent(t, path, want)
	})
}

// lateBody is a body that arrives after a second, unless the request's context has ended.
type lateBody struct {
	ctx context.Context
	io.ReadCloser
}

func (b *lateBody) Read(p []byte) (int, error) {
	select {
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	case <-time.After(time.Second):
		return b.ReadCloser.Read(p)
	}
}

// A paid read buys the chunksets of 10 MiB that it needs, up to a limit.
func ExamplePayment() {
	c, p, stop := examplePayer()
	defer stop()
	_, err := c.Put(ctx, "team", "a", strings.NewReader("hello, world"), client.PutOptions{})
	check(err)

	payment := &client.Payment{Payer: p, MaxChunksets: 3}
	r, err := c.Get(ctx, "team", "a", client.GetOptions{Payment: payment})
	check(err)
	text, err := io.ReadAll(r)
	check(err)
	check(r.Close())
	fmt.Println(string(text), payment.Charged())
	// Output: hello, world 1
}
