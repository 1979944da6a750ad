package client_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"sluice/client"
	"sluice/test/testenv"
	"sluice/wire"
)

// TestPaidReadAtBuysAChunksetOnce counts the chunksets that small reads are charged.
func TestPaidReadAtBuysAChunksetOnce(t *testing.T) {
	const chunkset = wire.ChunksetSize
	content := make([]byte, 6*chunkset+chunkset/2)
	for i := range content {
		content[i] = byte(i >> 10)
	}
	type span struct{ offset, length int64 }
	for name, test := range map[string]struct {
		reads   []span
		charged int64
	}{
		"ten bytes":                          {[]span{{5, 10}}, 1},
		"in one chunkset":                    {[]span{{5, 10}, {0, 1}, {chunkset - 1, 1}, {100, chunkset / 2}, {5, 10}}, 1},
		"over a boundary":                    {[]span{{chunkset - 5, 10}, {chunkset - 5, 10}, {chunkset + 7, 9}}, 2},
		"the end":                            {[]span{{6*chunkset + 5, 10}, {int64(len(content)) - 1, 1}, {int64(len(content)) - 3, 100}}, 1},
		"a part, a whole, and a part":        {[]span{{chunkset - 1, chunkset + 2}, {0, 10}, {2 * chunkset, 10}}, 3},
		"wholes are read as one":             {[]span{{0, int64(len(content))}}, 7},
		"four are kept":                      {[]span{{0, 1}, {chunkset, 1}, {2 * chunkset, 1}, {3 * chunkset, 1}, {0, 1}, {chunkset, 1}, {2 * chunkset, 1}, {3 * chunkset, 1}}, 4},
		"the one that was not used is freed": {[]span{{0, 1}, {chunkset, 1}, {2 * chunkset, 1}, {3 * chunkset, 1}, {0, 1}, {4 * chunkset, 1}, {0, 1}, {chunkset, 1}}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, newService(t, serviceOptions{price: 3}))
				testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", bytes.NewReader(content), client.PutOptions{SkipDigest: true})))
				p := newPayer(t, c, testenv.MemoryDir(t), func(o *client.PayerOptions) { o.Chunksets = 4 })
				payment := &client.Payment{Payer: p}
				o := testenv.Must(c.Open(t.Context(), "team", "a", client.GetOptions{Payment: payment}))(t)
				defer func() { testenv.Check(t, o.Close()) }()
				for _, r := range test.reads {
					got := make([]byte, r.length)
					n, err := o.ReadAt(got, r.offset)
					want := content[r.offset:min(r.offset+r.length, int64(len(content)))]
					if !bytes.Equal(got[:n], want) || errors.Is(err, io.EOF) != (int64(n) < r.length) || err != nil && !errors.Is(err, io.EOF) {
						t.Fatalf("%+v: %d bytes, %v", r, n, err)
					}
				}
				s := testenv.Must(c.Session(t.Context(), status(t, p).SessionID))(t)
				if used := s.ChunksetsTotal - s.ChunksetsLeft; payment.Charged() != test.charged || used != test.charged {
					t.Errorf("charged %d, and the session %d, want %d", payment.Charged(), used, test.charged)
				}
			})
		})
	}
}

// TestPaidReadAtOfManyCallers reads small pieces concurrently: each chunkset is charged once, as
// there are no more than are kept.
func TestPaidReadAtOfManyCallers(t *testing.T) {
	c := newClient(t, newService(t, serviceOptions{price: 3}))
	want := paidBlob(t, c)
	p := newPayer(t, c, testenv.MemoryDir(t), func(o *client.PayerOptions) { o.Chunksets = 4 })
	payment := &client.Payment{Payer: p}
	o := testenv.Must(c.Open(t.Context(), "team", "a", client.GetOptions{Payment: payment}))(t)
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 20 {
				got := make([]byte, 100)
				offset := rand.N(int64(len(want) - len(got)))
				if _, err := o.ReadAt(got, offset); err != nil || !bytes.Equal(got, want[offset:][:len(got)]) {
					t.Errorf("100 bytes from %d on: %v", offset, err)
				}
			}
		})
	}
	callers.Wait()
	testenv.Equal(t, payment.Charged(), 3, "the charged chunksets")
	testenv.OK(t, o.Close())
	if _, err := o.ReadAt(make([]byte, 1), 0); err == nil {
		t.Error("a read after Close succeeded")
	}
}

// TestPaidReadAtAfterAFailure checks that a chunkset that could not be read is read again.
func TestPaidReadAtAfterAFailure(t *testing.T) {
	c := newClient(t, newService(t, serviceOptions{price: 3}))
	want := paidBlob(t, c)
	payment := &client.Payment{Payer: newPayer(t, c, testenv.MemoryDir(t)), MaxChunksets: 1}
	o := testenv.Must(c.Open(t.Context(), "team", "a", client.GetOptions{Payment: payment}))(t)
	got := make([]byte, 10)
	for range 2 {
		testenv.Is(t, testenv.Error(o.ReadAt(got, wire.ChunksetSize-1)), client.ErrPaymentRequired, "beyond the limit")
		n, err := o.ReadAt(got, 7)
		if err != nil || string(got[:n]) != string(want[7:17]) {
			t.Errorf("within the limit: %q, %v", got[:n], err)
		}
	}
	testenv.Equal(t, payment.Charged(), 1, "the charged chunksets")
	testenv.OK(t, o.Close())
}

// TestGetLast reads the ends of blobs, free and paid.
func TestGetLast(t *testing.T) {
	_, free := startServer(t)
	paid := newClient(t, newService(t, serviceOptions{price: 3}))
	payer := newPayer(t, paid, testenv.MemoryDir(t))
	for name, c := range map[string]*client.Client{"free": free, "paid": paid} {
		t.Run(name, func(t *testing.T) {
			o := client.GetOptions{}
			if c == paid {
				o.Payment = &client.Payment{Payer: payer}
			}
			const text = "the end of a text that is longer than an inline body"
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "a", strings.NewReader(text), client.PutOptions{})))
			testenv.OK(t, testenv.Error(c.Put(t.Context(), "team", "empty", strings.NewReader(""), client.PutOptions{})))
			for n, want := range map[int64]string{1: "y", 9: "line body", int64(len(text)): text, 1000: text} {
				r, err := c.GetLast(t.Context(), "team", "a", n, o)
				if got, err := all(r, err); err != nil || string(got) != want || r.Size() != int64(len(want)) {
					t.Errorf("the last %d bytes: %q, %v", n, got, err)
				}
			}
			if got, err := all(c.GetLast(t.Context(), "team", "empty", 5, o)); err != nil || len(got) > 0 {
				t.Errorf("of an empty blob: %q, %v", got, err)
			}
			testenv.Is(t, testenv.Error(c.GetLast(t.Context(), "team", "a", 0, o)), client.ErrInvalid, "no bytes")
			testenv.Is(t, testenv.Error(c.GetLast(t.Context(), "team", "none", 1, o)), client.ErrNotFound, "of a missing blob")
		})
	}
	_, hostile := newScript(t, 1, respond(200, map[string]string{"ETag": `"x"`}, "too long"))
	testenv.Is(t, testenv.Error(hostile.GetLast(t.Context(), "team", "a", 3, client.GetOptions{})), client.ErrBadResponse, "more than the end")
}
