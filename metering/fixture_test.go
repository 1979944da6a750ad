package metering

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/blob"
	"sluice/database"
	"sluice/database/sqlstore"
	"sluice/database/whole"
	"sluice/internal/vfs"
	"sluice/ledger"
	"sluice/paychan"
	"sluice/session"
	"sluice/test/testenv"
	"sluice/wire"
)

// payStore is a store that loses the results of charges and returns, or is unreachable, while its
// fields are set so.
type payStore struct {
	whole.Database
	losesCharges, refusesCharges, losesReturns, unreachable atomic.Bool
	unreachableForCredit                                    atomic.Bool
}

func lose(err error, loses bool) error {
	if err == nil && loses {
		return fmt.Errorf("commit: %w", database.ErrUnknownOutcome)
	}
	return err
}

func (s *payStore) ChargeSession(ctx context.Context, id string, n int64, charge string) (ledger.Session, error) {
	if s.refusesCharges.Load() { // it has no effect, but the caller cannot know
		return ledger.Session{}, database.ErrUnknownOutcome
	}
	got, err := s.Database.ChargeSession(ctx, id, n, charge)
	return got, lose(err, s.losesCharges.Load())
}

func (s *payStore) PayRead(ctx context.Context, r ledger.ReadPurchase) (ledger.Channel, error) {
	if s.refusesCharges.Load() {
		return ledger.Channel{}, database.ErrUnknownOutcome
	}
	got, err := s.Database.PayRead(ctx, r)
	if err = lose(err, s.losesCharges.Load()); err != nil {
		return ledger.Channel{}, err
	}
	return got, nil
}

// doReturn makes a return of any kind.
func doReturn[T any](s *payStore, do func() (T, error)) (T, error) {
	if s.unreachable.Load() {
		var none T
		return none, database.ErrUnavailable
	}
	got, err := do()
	return got, lose(err, s.losesReturns.Load())
}

func (s *payStore) ReturnCharge(ctx context.Context, id, charge string) (ledger.Session, error) {
	return doReturn(s, func() (ledger.Session, error) { return s.Database.ReturnCharge(ctx, id, charge) })
}

func (s *payStore) ReturnChunksets(ctx context.Context, id string, n int64, request string) (ledger.Session, error) {
	return doReturn(s, func() (ledger.Session, error) { return s.Database.ReturnChunksets(ctx, id, n, request) })
}

func (s *payStore) ReturnRead(ctx context.Context, p ledger.Payment, charge string) (ledger.Channel, error) {
	return doReturn(s, func() (ledger.Channel, error) { return s.Database.ReturnRead(ctx, p, charge) })
}

func (s *payStore) ReturnCredit(ctx context.Context, id string, count, price int64, request string) (ledger.Channel, error) {
	if s.unreachableForCredit.Load() {
		return ledger.Channel{}, database.ErrUnavailable
	}
	return doReturn(s, func() (ledger.Channel, error) { return s.Database.ReturnCredit(ctx, id, count, price, request) })
}

// fixture is a Meter over a payStore, with a session of 100 chunksets and a channel.
type fixture struct {
	*testing.T
	*Meter
	store   *payStore
	session string
	channel ledger.Channel
	log     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

const sender = "0x00000000000000000000000000000000000000000000000000000000000000aa"

func newFixture(t *testing.T) *fixture {
	t.Helper()
	database, err := sqlstore.OpenSQLite(filepath.Join(t.TempDir(), "meta.db"), sqlstore.Options{})
	testenv.OK(t, err)
	testenv.AtEnd(t, database.Close)
	f := &fixture{T: t, store: &payStore{Database: database}, session: "session", log: &lockedBuffer{}}
	channels, err := paychan.New(f.store, paychan.Options{Receiver: "0x1", Asset: "0x2", Module: "0x3", Price: 1, Deposit: 5, SessionTTL: time.Hour, UnsettledLimit: 100})
	testenv.OK(t, err)
	f.Meter = New(session.New(f.store, session.Options{Grant: session.DefaultGrant}), channels, nil)
	f.returns = f.newReturns(vfs.OS(), filepath.Join(t.TempDir(), "returns"))
	_, err = f.store.CreateSession(t.Context(), ledger.Session{ID: f.session, Total: 100, Left: 100, Expires: time.Now().Add(time.Hour)}, nil)
	testenv.OK(t, err)
	f.channel = testenv.Must(f.store.OpenChannel(t.Context(), ledger.Channel{
		ID: "channel", Sender: sender, Receiver: "0x1", Asset: "0x2", Deposit: 100, Expires: time.Now().Add(time.Hour),
	}, nil))(t)
	return f
}

// newReturns returns the Returns in a process that finds dir on disk.
func (f *fixture) newReturns(disk vfs.FS, dir string) *Returns {
	f.Helper()
	r, err := NewReturns(f.sessions, f.channels, filepath.Join(f.TempDir(), "none"), slog.New(slog.NewTextHandler(f.log, nil)))
	testenv.OK(f, err)
	r.fs, r.dir = disk, dir
	testenv.OK(f, r.load())
	return r
}

// payment returns a micropayment of 10 over the channel, as if it had been verified.
func (f *fixture) payment() *ledger.Payment {
	return &ledger.Payment{
		Sender: sender, Receiver: "0x1", Asset: "0x2", PaymentChannelID: f.channel.PaymentChannelID,
		Sequence: 1, Amount: 10, Proof: []byte("proof"), Expires: time.Now().Add(time.Minute),
	}
}

// bills returns a bill for the session and one for a micropayment.
func (f *fixture) bills() []*Bill {
	return []*Bill{{meter: f.Meter, payer: Payer{Session: f.session, Limit: -1}}, {meter: f.Meter, payer: Payer{Payment: f.payment(), Limit: -1}}}
}

// checkFunds checks how many chunksets the session has left and the channel's credit.
func (f *fixture) checkFunds(left, credit int64) {
	f.Helper()
	s, err := f.store.Session(f.Context(), f.session)
	c, err2 := f.store.Channel(f.Context(), "channel")
	if err := errors.Join(err, err2); err != nil || s.Left != left || c.Credit != credit {
		f.Errorf("%d left, a credit of %d, %v; want %d and %d", s.Left, c.Credit, err, left, credit)
	}
	if found, err := f.store.Audit(f.Context()); err != nil || len(found) > 0 {
		f.Errorf("the audit found %q, %v", found, err)
	}
}

// awaitReturns makes returns until none is pending.
func (f *fixture) awaitReturns() {
	f.Helper()
	for f.returns.tryAll(f.Context()) > 0 || f.returns.Pending() > 0 {
		if f.Context().Err() != nil {
			f.Fatal("a return stays pending")
		}
	}
}

// cutReads charges 3 chunksets for each of two reads, one by the session and one by micropayment,
// and ends them before their first byte.
func (f *fixture) cutReads() {
	f.Helper()
	for _, b := range f.bills() {
		if _, _, err := b.Charge(f.Context(), []blob.Range{{Off: 0, N: 3 * wire.ChunksetSize}}); err != nil {
			f.Fatal(err)
		}
		b.Return(nil)
	}
}
