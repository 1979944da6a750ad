package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/vfs"
	"sluice/metastore"
	"sluice/paychan"
	"sluice/session"
)

// giveBack is what a read was charged and not served, on its way back to who
// paid. Each has a name, by which the store gives it back once.
type giveBack struct {
	// Since is when the read ended, by this node's clock.
	Since time.Time `json:"since"`
	// Name is that of the return or, where the outcome of the charge is not
	// known, of the charge.
	Name    string `json:"name"`
	InDoubt bool   `json:"inDoubt,omitempty"`
	Count   int64  `json:"count"` // chunksets

	Session string   `json:"session,omitempty"` // that paid, or
	Channel string   `json:"channel,omitempty"` // that paid, or
	Payment *payment `json:"payment,omitempty"` // that may have paid
	Price   int64    `json:"price,omitempty"`   // with Channel
}

// payment is what finds the sale for a micropayment.
type payment struct {
	Sender           string `json:"sender"`
	Receiver         string `json:"receiver"`
	Asset            string `json:"asset"`
	PaymentChannelID int64  `json:"paymentChannelId"`
	Sequence         int64  `json:"sequence"`
}

const (
	// returnLife is how long a return is tried. The store remembers returns for
	// twice that, and so gives nothing back twice, also where clocks differ.
	returnLife = metastore.IdempotencyRetention / 2
	// maxReturns is how many may wait while further reads are charged. Those
	// that are at work then add at most as many as there are requests.
	maxReturns = 10_000
	// returnsAtOnce is how many are tried at the same time.
	returnsAtOnce = 8
	// The pauses between the tries.
	leastReturnPause = 100 * time.Millisecond
	mostReturnPause  = 30 * time.Second
	// returnsTime bounds the tries at the start and at the end.
	returnsTime = 5 * time.Second
)

// Returns gives back what reads were charged and not served, and tries until the
// store has answered, also over a restart: what is left when it is closed is kept
// in files, each the JSON list of what was left, and goes on at the next start.
type Returns struct {
	sessions *session.Service
	channels *paychan.Service
	fs       vfs.FS
	dir      string
	log      *slog.Logger
	now      func() time.Time

	kick chan struct{}
	lost prometheus.Counter

	mu struct {
		sync.Mutex
		pending []*giveBack
		files   []string // that hold some of pending
		closed  bool
	}
}

// NewReturns gives what was left behind in the folder dir, which it makes when
// there is something to keep, its next try. metrics may be nil.
func NewReturns(sessions *session.Service, channels *paychan.Service, dir string, log *slog.Logger, metrics prometheus.Registerer) (*Returns, error) {
	r := &Returns{
		sessions: sessions, channels: channels, fs: vfs.OS(), dir: dir, log: log, now: time.Now,
		kick: make(chan struct{}, 1),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_returns_lost_total", Help: "Chunksets that were charged, not served, and could not be given back in time.",
		}),
	}
	if metrics != nil {
		metrics.MustRegister(r.lost, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sluice_returns_pending", Help: "Reads whose chunksets are on their way back.",
		}, func() float64 { return float64(r.waiting()) }))
	}
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("reading what is still to be given back: %w", err)
	}
	return r, nil
}

// Replay tries all that an earlier process has left, each once. It is called
// before there are requests. What fails is tried on by Run.
func (r *Returns) Replay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, returnsTime)
	defer cancel()
	if r.pass(ctx) > 0 {
		r.wake()
	}
}

// Run gives back what comes until ctx ends.
func (r *Returns) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		}
		pause := leastReturnPause
		for r.pass(ctx) > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, mostReturnPause)
		}
	}
}

// Close tries what is left once more, and returns when the rest is kept on disk,
// durably. It is called when no request is at work any more.
func (r *Returns) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), returnsTime)
	defer cancel()
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		r.pass(ctx)
	}()
	select {
	case <-tried:
	case <-ctx.Done(): // what still comes through is given back once all the same
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.closed = true
	if len(r.mu.pending) == 0 {
		return nil
	}
	if err := r.save(); err != nil {
		return fmt.Errorf("keeping what is still to be given back for %d reads: %w", len(r.mu.pending), err)
	}
	r.log.Warn("what was charged and not served goes back at the next start", "reads", len(r.mu.pending), "folder", r.dir)
	return nil
}

// give takes something in to be given back.
func (r *Returns) give(g giveBack) {
	g.Since = r.now().Round(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		r.drop(&g, errors.New("the server has ended"))
		return
	}
	r.mu.pending = append(r.mu.pending, &g)
	r.wake()
}

// wake asks Run to look for what is pending.
func (r *Returns) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// waiting is how many reads wait for what they are to be given back.
func (r *Returns) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.pending)
}

// drop notes what is not given back.
func (r *Returns) drop(g *giveBack, why error) {
	r.lost.Add(float64(g.Count))
	r.log.Error("what was charged and not served is not given back", "chunksets", g.Count, "session", short(g.Session), "channel", short(g.Channel), "error", why)
}

// short is what the log may show of an id.
func short(id string) string { return id[:min(len(id), 6)] }

// pass tries all that is pending, each once, and returns how many are left of
// these.
func (r *Returns) pass(ctx context.Context) (left int) {
	r.mu.Lock()
	list := slices.Clone(r.mu.pending)
	r.mu.Unlock()
	failures := make([]error, len(list))
	var workers sync.WaitGroup
	places := make(chan struct{}, returnsAtOnce)
	for i, g := range list {
		places <- struct{}{}
		workers.Go(func() {
			defer func() { <-places }()
			failures[i] = r.settle(ctx, g)
		})
	}
	workers.Wait()
	done := map[*giveBack]bool{}
	var first error
	for i, g := range list {
		if failures[i] == nil {
			done[g] = true
		} else if left++; first == nil {
			first = failures[i]
		}
	}
	if left > 0 && ctx.Err() == nil {
		r.log.Error("giving back what was charged and not served failed, and is tried again", "reads", left, "error", first)
	}
	r.forget(done)
	return left
}

// forget takes out what is done.
func (r *Returns) forget(done map[*giveBack]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.pending = slices.DeleteFunc(r.mu.pending, func(g *giveBack) bool { return done[g] })
	if len(r.mu.pending) > 0 || len(r.mu.files) == 0 {
		return
	}
	// Should this fail, or not survive, the next start gives back again what has
	// been given back, which has no effect.
	if err := r.remove(r.mu.files); err != nil {
		r.log.Error("cannot remove what has been given back", "folder", r.dir, "error", err)
	}
	r.mu.files = nil
}

// settle gives one thing back. nil: there is no more to do.
func (r *Returns) settle(ctx context.Context, g *giveBack) error {
	if age := r.now().Sub(g.Since); age > returnLife || age < -returnLife {
		r.drop(g, fmt.Errorf("it is too late after %s", age))
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := r.deliver(ctx, g)
	if errors.Is(err, metastore.ErrNotFound) || errors.Is(err, metastore.ErrNoChannel) {
		r.drop(g, err) // who paid is not remembered any more
		return nil
	}
	return err
}

// deliver asks the store to give one thing back.
func (r *Returns) deliver(ctx context.Context, g *giveBack) (err error) {
	switch {
	case g.Payment != nil:
		p := g.Payment
		_, err = r.channels.ReturnRead(ctx, metastore.Payment{
			Sender: p.Sender, Receiver: p.Receiver, Asset: p.Asset, PaymentChannelID: p.PaymentChannelID, Sequence: p.Sequence,
		}, g.Name)
	case g.Channel != "":
		_, err = r.channels.Return(ctx, g.Channel, g.Count, g.Price, g.Name)
	case g.InDoubt:
		_, err = r.sessions.ReturnCharge(ctx, g.Session, g.Name)
	default:
		_, err = r.sessions.Return(ctx, g.Session, g.Count, g.Name)
	}
	return err
}

// The names of the files.
const (
	returnsFile = ".json"
	returnsTemp = ".tmp" // not whole
)

// load reads what was kept. A file that cannot be read is an error: it is money.
func (r *Returns) load() error {
	entries, err := r.fs.ReadDir(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(r.dir, e.Name())
		switch {
		case strings.HasSuffix(name, returnsTemp):
			if err := r.fs.Remove(name); err != nil {
				return err
			}
		case strings.HasSuffix(name, returnsFile):
			list, err := r.read(name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.mu.pending = append(r.mu.pending, list...)
			r.mu.files = append(r.mu.files, name)
		}
	}
	return nil
}

func (r *Returns) read(name string) ([]*giveBack, error) {
	f, err := r.fs.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var list []*giveBack
	return list, json.Unmarshal(text, &list)
}

// save keeps all that is pending in a file of its own, and removes the files
// that held it before.
func (r *Returns) save() error {
	text, err := json.Marshal(r.mu.pending)
	if err != nil {
		return err
	}
	if err := vfs.MkdirAll(r.fs, r.dir); err != nil {
		return err
	}
	name := filepath.Join(r.dir, rand.Text())
	if err := r.write(name+returnsTemp, text); err != nil {
		return err
	}
	if err := r.fs.Rename(name+returnsTemp, name+returnsFile); err != nil {
		return err
	}
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	return r.remove(r.mu.files)
}

// write writes a file whose bytes survive a power cut.
func (r *Returns) write(name string, text []byte) error {
	f, err := r.fs.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func (r *Returns) remove(files []string) error {
	for _, name := range files {
		if err := r.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(files) == 0 {
		return nil
	}
	return r.fs.SyncDir(r.dir)
}
