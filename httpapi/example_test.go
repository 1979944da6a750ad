package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sluice/access"
	"sluice/blob"
	"sluice/bytestore/memory"
	"sluice/database/sqlstore"
	"sluice/exchange"
	"sluice/httpapi"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
)

// A local instance over SQLite and memory stores a blob and serves a range of it.
func Example() {
	dir, err := os.MkdirTemp("", "httpapi")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	meta, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	check(err)
	defer func() { check(meta.Close()) }()

	log := slog.New(slog.DiscardHandler)
	sessions := session.New(meta, session.Options{Grant: session.DefaultGrant})
	channels, err := paychan.New(meta, paychan.Options{
		Receiver: "0x1", Asset: "0x2", Module: "0x3", Price: 1, Deposit: 5, SessionTTL: time.Hour, UnsettledLimit: 100,
	})
	check(err)
	returns, err := metering.NewReturns(sessions, channels, filepath.Join(dir, "returns"), log)
	check(err)
	handler, err := httpapi.New(httpapi.Config{
		Version:  "example",
		Blobs:    blob.New(meta, memory.New(), blob.Options{}),
		Sessions: sessions,
		Channels: channels,
		Returns:  returns,
		Reads:    access.ReadsPublic,
		Config:   exchange.Config{Ready: func(context.Context) error { return nil }, Log: log},
	})
	check(err)
	server := httptest.NewServer(handler)
	defer server.Close()

	url := server.URL + "/v1/blobs/0x1/greetings/hello.txt"
	put, err := http.NewRequest(http.MethodPut, url, strings.NewReader("hello, world"))
	check(err)
	stored, err := http.DefaultClient.Do(put)
	check(err)
	check(stored.Body.Close())
	fmt.Println(stored.Status)

	get, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	check(err)
	get.Header.Set("Range", "bytes=7-")
	read, err := http.DefaultClient.Do(get)
	check(err)
	body, err := io.ReadAll(read.Body)
	check(err)
	check(read.Body.Close())
	fmt.Println(read.Status, read.Header.Get("Content-Range"), string(body))
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// 204 No Content
	// 206 Partial Content bytes 7-11/12 world
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
