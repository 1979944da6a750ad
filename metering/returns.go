package metering

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/database"
	"sluice/internal/task"
	"sluice/internal/vfs"
	"sluice/ledger"
	"sluice/paychan"
	"sluice/session"
)

// pendingReturn is a charge, or a part of one, that is to be returned to its payer. Its JSON is the
// format of Returns' files.
type pendingReturn struct {
	// Since is when the read ended, by the clock of this node.
	Since time.Time `json:"since"`
	// Name identifies the return to the store, which makes it once. If InDoubt, it is the name of
	// the charge, and the charge's outcome is unknown.
	Name    string `json:"name"`
	InDoubt bool   `json:"inDoubt,omitempty"`
	Count   int64  `json:"count"` // chunksets

	// Exactly one of these is set.
	Session string      `json:"session,omitempty"` // that paid
	Channel string      `json:"channel,omitempty"` // that paid
	Payment *paymentKey `json:"payment,omitempty"` // its charge is in doubt

	Price int64 `json:"price,omitempty"` // a chunkset's, with Channel
}

// paymentKey identifies the charge for a micropayment.
type paymentKey struct {
	Sender           string `json:"sender"`
	Receiver         string `json:"receiver"`
	Asset            string `json:"asset"`
	PaymentChannelID int64  `json:"paymentChannelId"`
	Sequence         int64  `json:"sequence"`
}

func keyOf(p *ledger.Payment) *paymentKey {
	return &paymentKey{Sender: p.Sender, Receiver: p.Receiver, Asset: p.Asset, PaymentChannelID: p.PaymentChannelID, Sequence: p.Sequence}
}

const (
	// returnLife is how long a return is retried. The store retains returns for twice as long,
	// so it makes each once even if the clocks of nodes differ.
	returnLife = database.IdempotencyRetention / 2
	// maxPending is the number of pending returns from which on reads are not charged. Requests in
	// progress can exceed it by at most one each.
	maxPending = 10_000
	// maxConcurrentReturns bounds the returns that are tried concurrently.
	maxConcurrentReturns = 8
	// Backoff between attempts.
	minReturnPause = 100 * time.Millisecond
	maxReturnPause = 30 * time.Second
	// returnsTimeout bounds the attempts of Replay and of Close.
	returnsTimeout = 5 * time.Second
)

// Returns refunds to payers the chunksets that reads were charged for but not served. It retries
// each return for up to half of database.IdempotencyRetention, across restarts: Close writes the
// pending returns to a file (a JSON list), and the next process continues. It is safe for
// concurrent use.
type Returns struct {
	sessions *session.Service
	channels *paychan.Service
	fs       vfs.FS
	dir      string
	log      *slog.Logger
	now      func() time.Time

	kick chan struct{}
	lost atomic.Int64 // chunksets

	mu struct {
		sync.Mutex
		pending []*pendingReturn
		files   []string // that contain some of pending
		closed  bool
	}
}

// NewReturns returns a Returns that continues with the returns that an earlier process has written
// to the folder dir. Close creates the folder if needed. NewReturns returns an error if a file
// cannot be read or parsed.
func NewReturns(sessions *session.Service, channels *paychan.Service, dir string, log *slog.Logger) (*Returns, error) {
	r := &Returns{
		sessions: sessions, channels: channels, fs: vfs.OS(), dir: dir, log: log, now: time.Now,
		kick: make(chan struct{}, 1),
	}
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("reading pending returns: %w", err)
	}
	return r, nil
}

// Replay tries every pending return once. It is called before the first request. Run retries those
// that fail.
func (r *Returns) Replay(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, returnsTimeout)
	defer cancel()
	if r.tryAll(ctx) > 0 {
		r.wake()
	}
}

// Run makes returns until ctx ends.
func (r *Returns) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.kick:
		}
		pause := minReturnPause
		for r.tryAll(ctx) > 0 {
			if task.Wait(ctx, pause) != nil {
				return
			}
			pause = min(2*pause, maxReturnPause)
		}
	}
}

// Close tries every pending return once more, for at most 5 seconds, and then writes the rest
// durably to a file. It must be called after the last request has ended: later returns are lost,
// which is logged.
func (r *Returns) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), returnsTimeout)
	defer cancel()
	tried := make(chan struct{})
	go func() {
		defer close(tried)
		r.tryAll(ctx)
	}()
	select {
	case <-tried:
	case <-ctx.Done(): // a return that succeeds later is made once nevertheless
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.closed = true
	if len(r.mu.pending) == 0 {
		return nil
	}
	if err := r.save(); err != nil {
		return fmt.Errorf("saving the pending returns of %d reads: %w", len(r.mu.pending), err)
	}
	r.log.Warn("chunksets that were charged but not served will be returned at the next start", "reads", len(r.mu.pending), "folder", r.dir)
	return nil
}

// add adds a return, which Run makes.
func (r *Returns) add(p pendingReturn) {
	p.Since = r.now().Round(0)
	p.Session = strings.Clone(p.Session) // it may be a part of a request, which the return outlives
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.closed {
		r.discard(&p, errors.New("the server has shut down"))
		return
	}
	r.mu.pending = append(r.mu.pending, &p)
	r.wake()
}

// wake makes Run look for pending returns.
func (r *Returns) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Lost returns the number of chunksets that were charged but not served and could not be returned
// in time, since the Returns was created.
func (r *Returns) Lost() int64 { return r.lost.Load() }

// Pending returns for how many reads chunksets are still to be returned.
func (r *Returns) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.mu.pending)
}

// discard counts and logs a return that is abandoned.
func (r *Returns) discard(p *pendingReturn, why error) {
	r.lost.Add(p.Count)
	r.log.Error("chunksets that were charged but not served are not returned", "chunksets", p.Count, "session", short(p.Session), "channel", short(p.Channel), "error", why)
}

// short returns the part of an id that may be logged.
func short(id string) string { return id[:min(len(id), 6)] }

// tryAll tries every pending return once and returns how many of them failed.
func (r *Returns) tryAll(ctx context.Context) (left int) {
	r.mu.Lock()
	list := slices.Clone(r.mu.pending)
	r.mu.Unlock()
	failures := make([]error, len(list))
	var workers sync.WaitGroup
	slots := make(chan struct{}, maxConcurrentReturns)
	for i, p := range list {
		slots <- struct{}{}
		workers.Go(func() {
			defer func() { <-slots }()
			failures[i] = r.try(ctx, p)
		})
	}
	workers.Wait()
	done := map[*pendingReturn]bool{}
	var first error
	for i, p := range list {
		if failures[i] == nil {
			done[p] = true
		} else if left++; first == nil {
			first = failures[i]
		}
	}
	if left > 0 && ctx.Err() == nil {
		r.log.Error("returning chunksets that were charged but not served failed and will be retried", "reads", left, "error", first)
	}
	r.remove(done)
	return left
}

// remove removes the returns that are done, and the files when none is pending.
func (r *Returns) remove(done map[*pendingReturn]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.pending = slices.DeleteFunc(r.mu.pending, func(p *pendingReturn) bool { return done[p] })
	if len(r.mu.pending) > 0 || len(r.mu.files) == 0 {
		return
	}
	// If this fails or is lost in a crash, the next process repeats the returns, which has no
	// effect.
	if err := r.removeFiles(r.mu.files); err != nil {
		r.log.Error("cannot remove the files of returns that were made", "folder", r.dir, "error", err)
	}
	r.mu.files = nil
}

// try makes one return. It returns nil if no retry is needed.
func (r *Returns) try(ctx context.Context, p *pendingReturn) error {
	if age := r.now().Sub(p.Since); age > returnLife || age < -returnLife {
		r.discard(p, fmt.Errorf("it is too late after %s", age))
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := r.deliver(ctx, p)
	if errors.Is(err, database.ErrNotFound) || errors.Is(err, ledger.ErrNoChannel) {
		r.discard(p, err) // the payer no longer exists
		return nil
	}
	return err
}

// deliver makes one return in the store.
func (r *Returns) deliver(ctx context.Context, p *pendingReturn) (err error) {
	switch {
	case p.Payment != nil:
		k := p.Payment
		_, err = r.channels.ReturnRead(ctx, ledger.Payment{
			Sender: k.Sender, Receiver: k.Receiver, Asset: k.Asset, PaymentChannelID: k.PaymentChannelID, Sequence: k.Sequence,
		}, p.Name)
	case p.Channel != "":
		_, err = r.channels.Return(ctx, p.Channel, p.Count, p.Price, p.Name)
	case p.InDoubt:
		_, err = r.sessions.ReturnCharge(ctx, p.Session, p.Name)
	default:
		_, err = r.sessions.Return(ctx, p.Session, p.Count, p.Name)
	}
	return err
}

// Suffixes of file names.
const (
	returnsFile = ".json"
	returnsTemp = ".tmp" // incomplete
)

// load reads an earlier process's files. An unreadable file is an error because it is money.
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

// sumMark precedes the content's checksum in a file's name. An earlier version has written none.
const sumMark = "-"

func sumOf(text []byte) string {
	return fmt.Sprintf("%08x", crc32.Checksum(text, crc32.MakeTable(crc32.Castagnoli)))
}

// CheckReturns returns a sentence for each damaged file of pending returns in the folder dir, which
// need not exist.
func CheckReturns(dir string) (found []string, err error) {
	r := &Returns{fs: vfs.OS(), dir: dir}
	entries, err := r.fs.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), returnsFile) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if _, err := r.read(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			found = append(found, fmt.Sprintf("%s: %v", name, err))
		}
	}
	return found, err
}

// read returns a file's returns.
func (r *Returns) read(name string) ([]*pendingReturn, error) {
	f, err := r.fs.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	var list []*pendingReturn
	err = json.Unmarshal(text, &list)
	_, sum, marked := strings.Cut(strings.TrimSuffix(filepath.Base(name), returnsFile), sumMark)
	if err == nil && marked && sum != sumOf(text) {
		err = errors.New("the content does not have the checksum in its name")
	}
	if err != nil {
		return nil, fmt.Errorf("the file is damaged; move it out of the folder to start without it, and its charges are not returned to their payers: %w", err)
	}
	return list, nil
}

// save writes all pending returns to a new file and then removes the previous files.
func (r *Returns) save() error {
	text, err := json.Marshal(r.mu.pending)
	if err != nil {
		return err
	}
	if err := vfs.MkdirAll(r.fs, r.dir); err != nil {
		return err
	}
	name := filepath.Join(r.dir, rand.Text()+sumMark+sumOf(text))
	if err := r.write(name+returnsTemp, text); err != nil {
		return err
	}
	if err := r.fs.Rename(name+returnsTemp, name+returnsFile); err != nil {
		return err
	}
	if err := r.fs.SyncDir(r.dir); err != nil {
		return err
	}
	return r.removeFiles(r.mu.files)
}

// write creates a file that survives a power failure, with its content.
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

func (r *Returns) removeFiles(files []string) error {
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
