package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/vfs"
	"sluice/metastore"
	"sluice/wire"
)

// payStore is a store that loses the answers to charges and returns, or cannot
// be reached, while it is told to.
type payStore struct {
	metastore.Store
	losesCharges, refusesCharges, losesReturns, away atomic.Bool
	awayForPayments                                  atomic.Bool
}

func lose(err error, loses bool) error {
	if err == nil && loses {
		return fmt.Errorf("commit: %w", metastore.ErrUnknownOutcome)
	}
	return err
}

func (s *payStore) ChargeSession(ctx context.Context, id string, n int64, charge string) (metastore.Session, error) {
	if s.refusesCharges.Load() { // it did not take effect, but nobody knows
		return metastore.Session{}, metastore.ErrUnknownOutcome
	}
	got, err := s.Store.ChargeSession(ctx, id, n, charge)
	return got, lose(err, s.losesCharges.Load())
}

func (s *payStore) PayRead(ctx context.Context, r metastore.ReadPurchase) (metastore.Channel, error) {
	if s.refusesCharges.Load() {
		return metastore.Channel{}, metastore.ErrUnknownOutcome
	}
	got, err := s.Store.PayRead(ctx, r)
	if err = lose(err, s.losesCharges.Load()); err != nil {
		return metastore.Channel{}, err
	}
	return got, nil
}

// back is how any return ends.
func back[T any](s *payStore, do func() (T, error)) (T, error) {
	if s.away.Load() {
		var none T
		return none, metastore.ErrUnavailable
	}
	got, err := do()
	return got, lose(err, s.losesReturns.Load())
}

func (s *payStore) ReturnCharge(ctx context.Context, id, charge string) (metastore.Session, error) {
	return back(s, func() (metastore.Session, error) { return s.Store.ReturnCharge(ctx, id, charge) })
}

func (s *payStore) ReturnChunksets(ctx context.Context, id string, n int64, request string) (metastore.Session, error) {
	return back(s, func() (metastore.Session, error) { return s.Store.ReturnChunksets(ctx, id, n, request) })
}

func (s *payStore) ReturnRead(ctx context.Context, p metastore.Payment, charge string) (metastore.Channel, error) {
	return back(s, func() (metastore.Channel, error) { return s.Store.ReturnRead(ctx, p, charge) })
}

func (s *payStore) ReturnCredit(ctx context.Context, id string, count, price int64, request string) (metastore.Channel, error) {
	if s.awayForPayments.Load() {
		return metastore.Channel{}, metastore.ErrUnavailable
	}
	return back(s, func() (metastore.Channel, error) { return s.Store.ReturnCredit(ctx, id, count, price, request) })
}

// paidService is a local service with paid reads over a payStore, a session of
// 100 chunksets and a channel.
type paidService struct {
	*service
	*testing.T
	store   *payStore
	session string
	channel metastore.Channel
}

func newPaidService(t *testing.T) *paidService {
	t.Helper()
	p := &paidService{T: t, session: "session"}
	p.service = startOver(t, func(m metastore.Store) metastore.Store {
		p.store = &payStore{Store: m}
		return p.store
	}, nil, func(c *Config, _ *Server) { c.Reads = ReadsPaid })
	_, err := p.meta.CreateSession(t.Context(), metastore.Session{ID: p.session, Total: 100, Left: 100, Expires: time.Now().Add(time.Hour)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.channel, err = p.meta.OpenChannel(t.Context(), metastore.Channel{
		ID: "channel", Sender: payer, Receiver: "0x1", Asset: "0x2", Deposit: 100, Expires: time.Now().Add(time.Hour),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, body := p.do(t, "PUT", "/v1/blobs/0x1/b", strings.Repeat("x", 100)); res.StatusCode != http.StatusNoContent {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	return p
}

// payment is a micropayment of 10 over the channel, as if it was verified.
func (p *paidService) payment() *metastore.Payment {
	return &metastore.Payment{
		Sender: payer, Receiver: "0x1", Asset: "0x2", PaymentChannelID: p.channel.PaymentChannelID,
		Sequence: 1, Amount: 10, Proof: []byte("proof"), Expires: time.Now().Add(time.Minute), UnsettledLimit: 100,
	}
}

// funds wants so many chunksets left and so much credit.
func (p *paidService) funds(left, credit int64) {
	p.Helper()
	s, err := p.meta.Session(p.Context(), p.session)
	c, err2 := p.meta.Channel(p.Context(), "channel")
	if err := errors.Join(err, err2); err != nil || s.Left != left || c.Credit != credit {
		p.Errorf("%d left, a credit of %d, %v; want %d and %d", s.Left, c.Credit, err, left, credit)
	}
	if found, err := p.meta.Audit(p.Context()); err != nil || len(found) > 0 {
		p.Errorf("the books: %q, %v", found, err)
	}
}

// settled waits until nothing is on its way back.
func (p *paidService) settled() {
	p.Helper()
	for p.Returns.pass(p.Context()) > 0 || p.Returns.waiting() > 0 {
		if p.Context().Err() != nil {
			p.Fatal("something stays on its way back")
		}
	}
}

// cutReads ends a read by the session and one by micropayment before their first
// byte, of which each was charged 3.
func (p *paidService) cutReads() {
	p.Helper()
	three := []byteRange{{0, 3 * chunksetSize}}
	for _, b := range []*bill{{s: p.Server, limit: -1, session: p.session}, {s: p.Server, limit: -1, payment: p.payment()}} {
		if err := b.charge(p.Context(), http.Header{}, three); err != nil {
			p.Fatal(err)
		}
		b.settle(nil)
	}
}

// A charge in doubt is not served, and comes back if it was made; so does what a
// cut read was charged, whatever becomes of the answer to the return.
func TestChargeInDoubtComesBack(t *testing.T) {
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("made: ", made), func(t *testing.T) {
			p := newPaidService(t)
			p.store.away.Store(true)
			p.store.losesCharges.Store(made)
			p.store.refusesCharges.Store(!made)
			res, body := p.do(t, "GET", "/v1/blobs/0x1/b", "", wire.HeaderSessionID, p.session)
			wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeOutcomeUnknown)
			err := (&bill{s: p.Server, limit: -1, payment: p.payment()}).charge(t.Context(), http.Header{}, []byteRange{{0, 1}})
			if !errors.Is(err, metastore.ErrUnknownOutcome) {
				t.Fatal(err)
			}
			if made {
				p.funds(99, 9)
			} else {
				p.funds(100, 0)
			}
			p.store.losesReturns.Store(true)
			p.store.away.Store(false)
			if left := p.Returns.pass(t.Context()); left != 2 {
				t.Errorf("%d returns are left whose answers were lost, want 2", left)
			}
			p.store.losesReturns.Store(false)
			p.settled()
			if made {
				p.funds(100, 10)
			} else {
				p.funds(100, 0)
			}
		})
	}
}

func TestReturnsAreTriedUntilTheStoreAnswers(t *testing.T) {
	p := newPaidService(t)
	p.store.away.Store(true)
	p.cutReads()
	for range 5 {
		if left := p.Returns.pass(t.Context()); left != 2 {
			t.Fatalf("%d wait while the store is away, want 2", left)
		}
	}
	p.funds(97, 7)
	p.store.away.Store(false)
	p.settled()
	p.funds(100, 10)
}

// What cannot be given back before the end is kept over a power cut, and given
// back at the next start, once.
func TestReturnsOutliveTheProcess(t *testing.T) {
	p := newPaidService(t)
	disk := vfs.NewCrash()
	const dir = "/data/returns"
	start := func() *Returns {
		r, err := NewReturns(p.Sessions, p.Channels, filepath.Join(t.TempDir(), "none"), slog.New(slog.NewTextHandler(p.log, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.fs, r.dir = disk, dir
		if err := r.load(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := start()
	p.Returns = first
	p.store.away.Store(true)
	p.cutReads()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	first.give(giveBack{Name: "late", Count: 1, Session: p.session}) // is lost, and said so
	if !strings.Contains(p.log.String(), "is not given back") {
		t.Error("the log does not tell of a return that came after the end")
	}
	disk = disk.Crash()
	second := start()
	if second.waiting() != 2 {
		t.Fatalf("%d wait after a power cut, want 2", second.waiting())
	}
	second.Replay(t.Context()) // the store is still away
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	disk = disk.Crash()
	p.store.losesReturns.Store(true)
	p.store.away.Store(false)
	third := start()
	third.Replay(t.Context())
	p.funds(100, 10)
	if err := third.Close(); err != nil { // it does not know of its success
		t.Fatal(err)
	}
	p.store.losesReturns.Store(false)
	fourth := start()
	fourth.Replay(t.Context())
	p.funds(100, 10)
	if entries, err := disk.ReadDir(dir); fourth.waiting() != 0 || err != nil || len(entries) != 0 {
		t.Errorf("%d wait, and %v, %v are in the folder", fourth.waiting(), entries, err)
	}
}

// What is older than the store's memory of returns is not given back: it could
// have been.
func TestOldReturnsAreDropped(t *testing.T) {
	p := newPaidService(t)
	own, err := NewReturns(p.Sessions, p.Channels, t.TempDir(), slog.New(slog.NewTextHandler(p.log, nil)), nil) // which nothing runs
	if err != nil {
		t.Fatal(err)
	}
	p.Returns = own
	p.store.away.Store(true)
	p.cutReads()
	// Clocks differ by less than the half of that memory that is left.
	p.Returns.now = func() time.Time { return time.Now().Add(metastore.IdempotencyRetention/2 + time.Minute) }
	if left := p.Returns.pass(t.Context()); left != 0 {
		t.Errorf("%d are still tried", left)
	}
	p.store.away.Store(false)
	p.settled()
	p.funds(97, 7)
}

// TestReturnsStayOnDiskUntilAllAreDone lets an earlier process leave two reads,
// of which one is given back, and a save fail: the other one is found all the
// same after a power cut.
func TestReturnsStayOnDiskUntilAllAreDone(t *testing.T) {
	p := newPaidService(t)
	disk := vfs.NewCrash()
	start := func() *Returns {
		r, err := NewReturns(p.Sessions, p.Channels, filepath.Join(t.TempDir(), "none"), slog.New(slog.NewTextHandler(p.log, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.fs, r.dir = disk, "/returns"
		if err := r.load(); err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := start()
	p.Returns = first
	p.store.away.Store(true)
	p.cutReads()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}

	second := start()
	full := errors.New("the disk is full")
	second.fs = vfs.Intercept(disk, func(op *vfs.Op, do func() error) error {
		if op.Kind == vfs.KindWrite {
			return full
		}
		return do()
	})
	if err := second.Close(); !errors.Is(err, full) {
		t.Fatalf("a save to a full disk: %v", err)
	}
	disk = disk.Crash()

	third := start()
	if third.waiting() != 2 {
		t.Fatalf("%d wait after a save that failed, want 2", third.waiting())
	}
	p.store.awayForPayments.Store(true)
	p.store.away.Store(false)
	if left := third.pass(t.Context()); left != 1 {
		t.Fatalf("%d are left, want 1", left)
	}
	p.funds(100, 7)
	disk = disk.Crash()
	p.store.awayForPayments.Store(false)
	start().Replay(t.Context())
	p.funds(100, 10)
}

// While too much is to be given back nothing more is charged.
func TestReturnsAreBounded(t *testing.T) {
	p := newPaidService(t)
	p.store.away.Store(true)
	for i := range maxReturns {
		p.Returns.give(giveBack{Name: fmt.Sprint(i), InDoubt: true, Session: p.session, Count: 1})
	}
	res, body := p.do(t, "GET", "/v1/blobs/0x1/b", "", wire.HeaderSessionID, p.session)
	wantProblem(t, res, body, http.StatusServiceUnavailable, wire.CodeOverloaded)
	p.funds(100, 0)
	p.store.away.Store(false)
	p.settled()
}

// A read that pays and finds its bytes damaged keeps what it was charged for the
// chunksets of which it has sent some, and gives back all when it has sent nothing.
func TestDamagedPaidReadComesBack(t *testing.T) {
	p := newPaidService(t)
	p.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("x", 6<<20))
	p.loseExtent(t, "0x1", "n", 1)
	req, err := http.NewRequest("GET", p.url+"/v1/blobs/0x1/n", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(wire.HeaderSessionID, p.session)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	closeOrFail(t, res.Body)
	if err == nil {
		t.Fatal("a body looks complete that is not")
	}
	http.DefaultClient.CloseIdleConnections()
	p.settled()
	p.funds(99, 0)

	p.do(t, "PUT", "/v1/blobs/0x1/n", strings.Repeat("y", 1<<20))
	p.loseExtent(t, "0x1", "n", 0)
	answer, body := p.do(t, "GET", "/v1/blobs/0x1/n", "", wire.HeaderSessionID, p.session)
	wantProblem(t, answer, body, http.StatusInternalServerError, wire.CodeInternal)
	p.settled()
	p.funds(99, 0)
}
