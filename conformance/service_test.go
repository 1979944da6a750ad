package conformance_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
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
	"sluice/database/sqlstore"
	"sluice/exchange"
	"sluice/feed"
	"sluice/httpapi"
	"sluice/internal/task"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/test/testenv"
	"sluice/webhook"
	"sluice/wire"
)

// terms are the terms of payment in these tests.
var terms = wire.Payment{
	Receiver: "0xa", Asset: "0xb", Module: "0xc", ChainID: 4, ChunksetPrice: "7", UnsettledLimit: "1000000",
	Settlement: wire.SettlementLedger,
}

// openService returns a local instance over SQLite and memory.
func openService(t testing.TB, reads access.Reads) *httpapi.Server {
	t.Helper()
	handler, _ := open(t, reads, nil)
	return handler
}

// openHosted returns a hosted network with paid reads under the path /sluice, and a key that may do
// everything but administer, for these accounts or, with nil, for all.
func openHosted(t testing.TB, accounts []string) (handler *httpapi.Server, key string) {
	t.Helper()
	return open(t, access.ReadsPaid, &access.NewKey{Scopes: []access.Scope{access.ScopeRead, access.ScopeWrite, access.ScopeChannels}, Accounts: accounts})
}

// openAdministered is openHosted with a key that administers these accounts or, with nil, all.
func openAdministered(t testing.TB, accounts []string) (handler *httpapi.Server, key string) {
	t.Helper()
	return open(t, access.ReadsPaid, &access.NewKey{Scopes: []access.Scope{access.ScopeAdmin}, Accounts: accounts})
}

// open returns a service, which is hosted if a key is described.
func open(t testing.TB, reads access.Reads, described *access.NewKey) (handler *httpapi.Server, key string) {
	t.Helper()
	dir := testenv.MemoryDir(t)
	meta, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	testenv.OK(t, err)
	testenv.AtEnd(t, meta.Close)
	price, err := strconv.ParseInt(terms.ChunksetPrice, 10, 64)
	testenv.OK(t, err)
	log := slog.New(slog.DiscardHandler)
	options := session.Options{Grant: session.DefaultGrant}
	if reads == access.ReadsPaid {
		options.Grant = 0
	}
	soldSessions := session.New(meta, options)
	channels, err := paychan.New(meta, paychan.Options{
		Receiver: terms.Receiver, Asset: terms.Asset, Module: terms.Module, ChainID: uint8(terms.ChainID), Price: price, Deposit: 1_000_000,
		SessionTTL: time.Hour, UnsettledLimit: 1_000_000,
	})
	testenv.OK(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var settling sync.WaitGroup
	settling.Go(func() { channels.Run(ctx, func(task.Run) {}) })
	t.Cleanup(func() { stop(); settling.Wait() })
	secrets, err := sealed.Parse([]byte(strings.Repeat("ab", 32)))
	testenv.OK(t, err)
	sender := webhook.New(meta, webhook.Options{Secrets: secrets})
	webhooks := &admin.WebhookOptions{Secrets: secrets, CheckURL: sender.CheckURL, Test: sender.Test}
	returns, err := metering.NewReturns(soldSessions, channels, filepath.Join(dir, "returns"), log)
	testenv.OK(t, err)
	places := access.NewPlaces(meta, reads, 0)
	hub := feed.New(meta, feed.Options{})
	t.Cleanup(hub.Close)
	config := httpapi.Config{
		Payment: terms, Version: "test", Sessions: soldSessions, Channels: channels, Returns: returns, Reads: reads,
		Blobs: blob.New(meta, memory.New(), blob.Options{}), Changes: hub,
		Config: exchange.Config{Log: log, Ready: func(context.Context) error { return nil }},
		Faucet: reads == access.ReadsPaid && described == nil, Inspection: meta,
		Census: meta.Census, Admin: admin.New(meta, admin.Options{Places: places, Webhooks: webhooks}), Places: places,
	}
	if described != nil {
		key = testenv.Must(access.Create(t.Context(), meta, *described))(t).Credential
		config.BasePath, config.Keys = "/sluice", access.NewAuthenticator(meta, access.AuthenticatorOptions{})
		config.Limiter = access.NewLimiter(access.LimiterOptions{})
	}
	handler, err = httpapi.New(config)
	testenv.OK(t, err)
	return handler, key
}

// serve serves a service on the loopback interface, and behind a proxy if wrap is not
// nil.
func serve(t testing.TB, service *httpapi.Server, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.Config = service.ServerOf(service)
	if wrap != nil {
		server.Config.Handler = wrap(service)
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}
