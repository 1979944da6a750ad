package metering_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sluice/blob"
	"sluice/database/sqlstore"
	"sluice/ledger"
	"sluice/metering"
	"sluice/paychan"
	"sluice/session"
	"sluice/wire"
)

// A read is charged before its first byte is sent, and chunksets that were not sent at all are
// returned to the payer.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "metering")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	store, err := sqlstore.OpenSQLite(filepath.Join(dir, "meta.db"), sqlstore.Options{})
	check(err)
	defer func() { check(store.Close()) }()

	sessions := session.New(store, session.Options{Grant: 10, TTL: time.Hour})
	channels, err := paychan.New(store, paychan.Options{
		Receiver: "0x1", Asset: "0x2", Module: "0x3", Price: 1, Deposit: 5, SessionTTL: time.Hour, UnsettledLimit: 100,
	})
	check(err)
	returns, err := metering.NewReturns(sessions, channels, filepath.Join(dir, "returns"), slog.New(slog.DiscardHandler))
	check(err)
	meter := metering.New(sessions, channels, returns)
	payer, err := sessions.Grant(ctx, "reader", nil)
	check(err)

	bill, err := meter.NewBill(ctx, metering.Payer{Session: payer.ID, Limit: -1})
	check(err)
	charged, left, err := bill.Charge(ctx, []blob.Range{{Off: 0, N: 3 * wire.ChunksetSize}})
	check(err)
	fmt.Println(charged, "charged,", left, "left")

	// The client closes the connection after the first byte, so two chunksets are returned. A
	// server calls returns.Run in the background instead of Replay.
	bill.Return([]blob.Range{{Off: 0, N: 1}})
	returns.Replay(ctx)
	after, err := sessions.Get(ctx, payer.ID)
	check(err)
	fmt.Println(after.Left, "left after the return")

	bill, err = meter.NewBill(ctx, metering.Payer{Session: payer.ID, Limit: -1})
	check(err)
	_, _, err = bill.Charge(ctx, []blob.Range{{Off: 0, N: 20 * wire.ChunksetSize}})
	fmt.Println("not enough:", errors.Is(err, ledger.ErrExhausted))
	check(returns.Close())
	// Output:
	// 3 charged, 7 left
	// 9 left after the return
	// not enough: true
}

// check panics on an error. A server handles it.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
