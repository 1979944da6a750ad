package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"sluice/micropay"
)

// stateVersion is the form's version in state files.
const stateVersion = 1

// maxStateFile is a state file's largest size in bytes.
const maxStateFile = 1 << 20

// maxAmount is the largest amount and sequence number that a service accepts.
const maxAmount = math.MaxInt64

// payerState is a state file's content: JSON in UTF-8, mode 0600. 64-bit numbers are decimal
// strings. It has a channel id and a session id, which are capabilities, and no key.
type payerState struct {
	Version int    `json:"version"`
	Service string `json:"service"` // base URL
	Account string `json:"account"` // the payer's address
	Terms   *Terms `json:"terms,omitempty"`
	Mark    uint32 `json:"mark"` // upper half of each nonce that this state signed

	Channel   *channelRecord `json:"channel,omitempty"`
	Earlier   uint64         `json:"earlier,string"`    // bought over channels before this one
	Refused   []refused      `json:"refused,omitempty"` // signed over channels before this one, and not bought
	SessionID string         `json:"sessionId,omitempty"`
	EndingID  string         `json:"endingSessionId,omitempty"` // the former session, if it has chunksets left
}

// refused is an amount that was signed and refused.
type refused struct {
	Amount uint64    `json:"amount,string"`
	Until  time.Time `json:"until"` // from then on it cannot be collected
}

// channelRecord is a payer's record of its channel. Bought <= Signed <= Bought + the pending or
// last purchase's price, unless a micropayment that another state signed was adopted.
type channelRecord struct {
	ID               string `json:"id,omitempty"` // "": the request to open it may have been sent
	PaymentChannelID uint64 `json:"paymentChannelId,string"`
	OpenKey          string `json:"openKey,omitempty"` // Idempotency-Key that opens it
	Deposit          uint64 `json:"deposit,string"`    // with which it is opened

	Sequence uint64    `json:"sequence,string"` // highest that was signed
	Signed   uint64    `json:"signed,string"`   // highest amount that was signed
	Bought   uint64    `json:"bought,string"`   // amount of all purchases that are known to be delivered
	Pending  *purchase `json:"pending,omitempty"`

	Credit      uint64    `json:"credit,omitempty,string"` // part of Bought without delivery yet: less than MaxPrice
	SignedUntil time.Time `json:"signedUntil,omitzero"`    // then only Bought and Pending can be collected
	Renewal     string    `json:"renewal,omitempty"`       // micropayment of a renewal in doubt, in base64
}

// purchase is a purchase without a known outcome yet.
type purchase struct {
	ID        string `json:"id"`            // a new session's UserIdentity, by which it is found again
	Amount    uint64 `json:"amount,string"` // of each of its micropayments: only one can be accepted; see Payer.step
	Chunksets int64  `json:"chunksets"`
	SessionID string `json:"sessionId,omitempty"` // to add to; "": a new session
	Total     int64  `json:"total,omitempty"`     // of that session, before

	// Micropayments are in base64, the oldest first. Each is written before it is sent.
	Micropayments []string `json:"micropayments"`
}

// parseState parses a state file as appendJSON writes it. It returns an error for everything that
// is inconsistent.
func parseState(text []byte) (*payerState, error) {
	var version struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &version); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if version.Version != stateVersion {
		return nil, fmt.Errorf("it has version %d, and this program knows only version %d", version.Version, stateVersion)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var s payerState
	if err := d.Decode(&s); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the JSON object")
	}
	return &s, s.check()
}

// check returns an error if the state is inconsistent.
func (s *payerState) check() error {
	account, err := micropay.ParseAddress(s.Account)
	if err != nil || account.String() != s.Account {
		return fmt.Errorf("account is not an address: %q", s.Account)
	}
	earlier, err := s.signedEarlier()
	c := s.Channel
	if err != nil || c == nil {
		return err
	}
	switch {
	case s.Terms == nil:
		return errors.New("there is a channel without terms")
	case c.ID == "" && (c.OpenKey == "" || c.Signed != 0 || c.Sequence != 0):
		return errors.New("the channel has no id")
	case c.Sequence > maxAmount || c.PaymentChannelID > maxAmount || c.Signed > maxAmount || earlier > maxAmount-c.Signed:
		return errors.New("a number is above 2^63-1")
	case c.Bought > c.Signed:
		return fmt.Errorf("bought is %d, above signed %d", c.Bought, c.Signed)
	case c.Credit > c.Bought:
		return fmt.Errorf("credit is %d, above bought %d", c.Credit, c.Bought)
	}
	return cmp.Or(c.checkPending(account), c.checkRenewal(account))
}

// signedEarlier returns all that was signed over channels before this one, or an error if it is
// above 2^63-1.
func (s *payerState) signedEarlier() (uint64, error) {
	sum := s.Earlier
	for _, r := range s.Refused {
		if r.Amount > maxAmount || sum > maxAmount-r.Amount {
			return 0, errors.New("the sum of refused amounts is above 2^63-1")
		}
		sum += r.Amount
	}
	return sum, nil
}

func (c *channelRecord) checkRenewal(account micropay.Address) error {
	if c.Renewal == "" {
		return nil
	}
	m, err := micropay.ParseBase64(c.Renewal)
	if err != nil {
		return fmt.Errorf("renewal: %w", err)
	}
	if m.Sender != account || m.PaymentChannelID != c.PaymentChannelID || m.Amount > c.Bought || m.Sequence > c.Sequence {
		return errors.New("the renewal does not belong to the channel")
	}
	return nil
}

func (c *channelRecord) checkPending(account micropay.Address) error {
	p := c.Pending
	if p == nil {
		return nil
	}
	if p.ID == "" || p.Chunksets < 1 || p.Total < 0 || p.Amount > c.Signed || len(p.Micropayments) == 0 {
		return errors.New("the pending purchase is inconsistent")
	}
	for i, text := range p.Micropayments {
		m, err := micropay.ParseBase64(text)
		if err != nil {
			return fmt.Errorf("pending micropayment %d: %w", i, err)
		}
		if m.Sender != account || m.PaymentChannelID != c.PaymentChannelID || m.Amount != p.Amount || m.Sequence > c.Sequence {
			return fmt.Errorf("pending micropayment %d does not belong to the purchase", i)
		}
	}
	return nil
}

// spent returns the amount bought over all channels, and the signed amounts beyond that which may
// still be collected.
func (s *payerState) spent(now time.Time) uint64 {
	sum := s.earlier(now)
	if s.Channel != nil {
		sum += s.Channel.collectable(now)
	}
	return sum
}

// earlier is spent for the channels before this one.
func (s *payerState) earlier(now time.Time) uint64 {
	sum := s.Earlier
	for _, r := range s.Refused {
		if now.Before(r.Until) {
			sum += r.Amount
		}
	}
	return sum
}

// bought returns the amount bought over all channels.
func (s *payerState) bought() uint64 {
	if s.Channel == nil {
		return s.Earlier
	}
	return s.Earlier + s.Channel.Bought
}

// leave makes the channel, over which no purchase is pending, an earlier one.
func (s *payerState) leave(now time.Time) {
	c := s.Channel
	s.Refused = slices.DeleteFunc(s.Refused, func(r refused) bool { return !now.Before(r.Until) })
	if c.collectable(now) > c.Bought {
		s.Refused = append(s.Refused, refused{c.Signed - c.Bought, c.SignedUntil})
	}
	s.Earlier, s.Channel = s.Earlier+c.Bought, nil
}

// collectable returns the highest amount that can be collected over the channel.
func (c *channelRecord) collectable(now time.Time) uint64 {
	if c.Pending == nil && !now.Before(c.SignedUntil) {
		return c.Bought
	}
	return c.Signed
}

// has reports whether the purchase has the micropayment m.
func (p *purchase) has(m *micropay.Micropayment) bool {
	return slices.Contains(p.Micropayments, m.Base64())
}

// stateFile is a state file and its lock. Every access is made while the lock is held, by one
// goroutine of one process.
type stateFile struct {
	path string
	turn chan struct{} // holds a token while no goroutine of this process has the lock
}

func newStateFile(path string) *stateFile {
	f := &stateFile{path, make(chan struct{}, 1)}
	f.turn <- struct{}{}
	return f
}

// Bounds for the pauses before a lock that another process holds is tried again.
const (
	shortestLockPause = 5 * time.Millisecond
	longestLockPause  = 250 * time.Millisecond
)

// lock waits until this goroutine alone may use the state file, among all goroutines and processes.
// The system releases the lock when a process ends. The lock is on a file with the suffix .lock,
// which remains: the state file itself is replaced with each change.
func (f *stateFile) lock(ctx context.Context) (unlock func() error, err error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.turn:
	}
	held, err := f.openLock()
	for pause := shortestLockPause; err == nil; pause = min(2*pause, longestLockPause) {
		var locked bool
		if locked, err = tryLock(held); err != nil || locked {
			break
		}
		if !waits(ctx, pause/2+rand.N(pause)) {
			err = fmt.Errorf("another process uses it: %w", context.Cause(ctx))
			if ctx.Err() == nil { // the deadline is within the pause
				err = fmt.Errorf("another process uses it: %w", context.DeadlineExceeded)
			}
		}
	}
	if err != nil {
		if held != nil {
			err = errors.Join(err, held.Close())
		}
		f.turn <- struct{}{}
		return nil, fmt.Errorf("client: the state file %s cannot be locked: %w", f.path, err)
	}
	return func() error {
		defer func() { f.turn <- struct{}{} }()
		return held.Close() // releases the lock
	}, nil
}

// openLock opens or creates the lock's file.
func (f *stateFile) openLock() (*os.File, error) {
	root, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return nil, err
	}
	held, err := openOrCreateOwn(root, filepath.Base(f.path)+".lock", os.O_RDWR)
	return held, errors.Join(err, root.Close())
}

// open opens the file, which must be this user's own.
func (f *stateFile) open() (_ *os.File, err error) {
	root, err := os.OpenRoot(filepath.Dir(f.path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	base := filepath.Base(f.path)
	if info, err := root.Lstat(base); err == nil {
		if err := f.checkMode(info); err != nil {
			return nil, err
		}
	}
	return openOwn(root, base, os.O_RDONLY)
}

// load returns the state, or nil if there is no file. The lock must be held.
func (f *stateFile) load() (*payerState, error) {
	file, err := f.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("client: the state file %s cannot be read: %w", f.path, err)
	}
	defer func() { _ = file.Close() }() // it is only read
	text, err := io.ReadAll(io.LimitReader(file, maxStateFile+1))
	if err == nil && len(text) > maxStateFile {
		err = fmt.Errorf("it is larger than %d bytes", maxStateFile)
	}
	var s *payerState
	if err == nil {
		s, err = parseState(text)
	}
	if err != nil {
		return nil, fmt.Errorf("client: the state file %s cannot be used: %w", f.path, err)
	}
	return s, nil
}

// checkMode refuses a file that other users may access, with the remedy.
func (f *stateFile) checkMode(info fs.FileInfo) error {
	if runtime.GOOS != "windows" && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("it has mode %#o: other users may access it, and it has ids that are like keys; run chmod 600 %s", info.Mode().Perm(), f.path)
	}
	return nil
}

// save replaces the file durably: after it returned nil the state survives a power cut, and after
// any end the file has the old or the new state. The lock must be held.
func (f *stateFile) save(s *payerState) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("client: the state file %s cannot be written: %w", f.path, err)
		}
	}()
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if _, err := parseState(text); err != nil {
		return fmt.Errorf("its new state is inconsistent: %w", err)
	}
	temporary := f.path + ".tmp" // one name for all: the lock is held
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(text, '\n'))
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	if err := os.Rename(temporary, f.path); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncFolder(filepath.Dir(f.path))
}
