package client_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/access"
	"sluice/access/sealed"
	"sluice/admin"
	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/client"
	"sluice/database/sqlstore"
	"sluice/exchange"
	"sluice/feed"
	"sluice/httpapi"
	"sluice/metastore"
	"sluice/metering"
	"sluice/micropay"
	"sluice/paychan"
	"sluice/session"
	"sluice/test/fault"
	"sluice/test/testenv"
	"sluice/wire"
)

// service is a local instance in this process, over SQLite and memory.
type service struct {
	handler *httpapi.Server
	close   func() error
}

// serviceOptions configure a service.
type serviceOptions struct {
	reads access.Reads // "": paid
	price int64        // 0: 1

	receiver string // "": 0xa
}

// emptyDatabase returns the file of an empty database. Services begin with copies of it, as
// creating the tables takes longer than most tests.
var emptyDatabase = sync.OnceValue(func() []byte {
	dir, err := os.MkdirTemp(testenv.MemoryRoot(), "client")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "meta.db")
	meta, err := sqlstore.OpenSQLite(path, sqlstore.Options{})
	check(err)
	check(meta.Close())
	text, err := os.ReadFile(path)
	check(err)
	return text
})

// openService opens a service, which the caller must close. It panics if that fails, as examples
// use it, too.
func openService(o serviceOptions) *service {
	dir, err := os.MkdirTemp(testenv.MemoryRoot(), "client")
	check(err)
	database := filepath.Join(dir, "meta.db")
	check(os.WriteFile(database, emptyDatabase(), 0o600))
	meta, err := sqlstore.OpenSQLite(database, sqlstore.Options{})
	check(err)
	receiver, price := cmp.Or(o.receiver, "0xa"), cmp.Or(o.price, 1)
	reads := cmp.Or(o.reads, access.ReadsPaid)
	log := slog.New(slog.DiscardHandler)
	var so session.Options
	if reads != access.ReadsPaid {
		so.Grant = session.DefaultGrant
	}
	sessions := session.New(meta, so)
	channels, err := paychan.New(meta, paychan.Options{
		Receiver: receiver, Asset: "0xb", Module: "0xc", ChainID: 4, Price: price, Deposit: 1_000_000,
		SessionTTL: time.Hour, UnsettledLimit: 1_000_000,
	})
	check(err)
	returns, err := metering.NewReturns(sessions, channels, filepath.Join(dir, "returns"), log)
	check(err)
	places := access.NewPlaces(meta, reads, 0)
	hub := feed.New(meta, feed.Options{})
	box, err := sealed.Parse([]byte(strings.Repeat("ab", 32)))
	check(err)
	webhooks := &admin.WebhookOptions{Secrets: box, CheckURL: func(string) error { return nil }, Test: func(_ context.Context, w metastore.Webhook) (metastore.WebhookResult, bool) {
		return metastore.WebhookResult{At: meta.Now(), Took: time.Second, Status: 500, Error: "status"}, w.Label != "busy"
	}}
	handler, err := httpapi.New(httpapi.Config{
		Payment: wire.Payment{
			Receiver: receiver, Asset: "0xb", Module: "0xc", ChainID: 4,
			ChunksetPrice: strconv.FormatInt(price, 10), UnsettledLimit: "1000000",
		},
		Version: "test", Sessions: sessions, Channels: channels, Returns: returns, Reads: reads,
		Blobs: blob.New(meta, memory.New(), blob.Options{}), Changes: hub,
		Admin:  admin.New(meta, admin.Options{Places: places, Webhooks: webhooks}),
		Places: places,
		Config: exchange.Config{Log: log, Ready: func(context.Context) error { return nil }},
	})
	check(err)
	return &service{handler, func() error {
		hub.Close()
		return errors.Join(meta.Close(), os.RemoveAll(dir))
	}}
}

// RoundTrip serves a request in this process. The response's body is in memory.
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	if in.Method != http.MethodGet && in.ContentLength >= 0 {
		in.Header.Set("Content-Length", strconv.FormatInt(in.ContentLength, 10))
	}
	recorder := httptest.NewRecorder()
	s.handler.ServeHTTP(recorder, in)
	if r.Body != nil {
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	out := recorder.Result()
	out.Request = r
	if r.Method != http.MethodHead {
		out.ContentLength = int64(recorder.Body.Len())
	}
	return out, nil
}

// newSigner returns an account's signer.
func newSigner(number byte) (*micropay.Signer, error) {
	key, err := micropay.NewPrivateKey(micropay.KeyEd25519, bytes.Repeat([]byte{number}, 32))
	if err != nil {
		return nil, err
	}
	return micropay.NewSigner(micropay.SchemeEd25519, key)
}

// faulty is a transport that applies a fault to each request.
type faulty struct {
	next  http.RoundTripper
	fault func(*http.Request) fault.Kind
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	return f.fault(r).Send(r, f.next)
}

// example returns a client for a new service, for the examples. The examples run against a real
// service, in this process.
func example(o serviceOptions) (*client.Client, func()) {
	s := openService(o)
	c, err := client.New("http://localhost:9090", client.Options{Transport: s})
	check(err)
	return c, func() { check(s.close()) }
}

// exampleFolder returns a new folder, for the examples.
func exampleFolder() (dir string, remove func()) {
	dir, err := os.MkdirTemp(testenv.MemoryRoot(), "example")
	check(err)
	return dir, func() { check(os.RemoveAll(dir)) }
}

// setChecks sets how often rapid.Check runs its function until the test ends, with and without
// -short. The test must not be parallel.
func setChecks(t *testing.T, n int) {
	t.Helper()
	if testing.Short() {
		n *= 5 // rapid divides by it
	}
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	testenv.OK(t, checks.Set(strconv.Itoa(n)))
	testenv.AtEnd(t, func() error { return checks.Set(before) })
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
