// Package mirror keeps the blobs of a service equal to the blobs of another.
//
// Run notes the position of the source's changes, compares the listings of both sides, and then
// follows the changes. It copies states and no changes: for each name that has changed it lists
// both sides, and makes the target's blob equal. So it can meet a change twice, and can begin anew
// anywhere. No name is written twice at a time, and each write requires the content that was
// listed: a request of an earlier process that arrives late replaces no newer content. It may set
// older properties of the same content, until the next comparison.
//
// Equal are a blob's ETag, content type, Cache-Control, Content-Disposition, Content-Language,
// custom headers and expiry. If the target has the content, only the properties are written. Not
// mirrored are versions that are not current, locks, the times of writes, S3's tags, and everything
// beside blobs, such as keys, settings and money.
package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/client"
	"sluice/wire"
)

const (
	few          = 10               // so many deletions are never too many
	attempts     = 4                // for a name that changes while it is copied
	mostLate     = 10_000           // names
	largeSize    = 4 << 20          // larger blobs are large
	largeAtATime = 4                // of these
	quiet        = 90 * time.Second // within which a source without changes responds
	longestPause = 30 * time.Second // before a service that is away is asked again
)

var (
	// ErrBrake is returned before a deletion that would be one too many, and if the source is
	// empty, was restored, or was set back to an older state.
	ErrBrake = errors.New("stopped to protect the target")
	// ErrFailed is returned if names could not be mirrored.
	ErrFailed = errors.New("names could not be mirrored")

	errNoETag = errors.New("the source shows no ETag: its key must permit to read without payment")
	errSave   = errors.New("the state of the mirror cannot be saved")
	errLarge  = errors.New("it is large")
	errNext   = errors.New("it is time to compare")
)

// Side is all accounts of a service, an account, or the names in it that begin with a prefix.
type Side struct {
	Client  *client.Client
	Account string // "": all, which requires a key with admin
	Prefix  string // "" without an account
}

// Options configure a Mirror. Its sides have both an account, or both none.
type Options struct {
	From, To Side

	State State             // that Save was called with last; zero: the mirror begins
	Save  func(State) error // saves a state durably

	Once    bool          // Run returns after a comparison
	Compare time.Duration // for how long changes are followed before the next comparison; 0: always

	// MaxDeletions bounds deletions, in percent: by a comparison, of the target's blobs, and within
	// an hour, of those that the target had at its beginning. Up to ten deletions are permitted if
	// the source has blobs, and with 100 all. A blob that has expired, or that was moved to another
	// name, does not count.
	MaxDeletions int

	Jobs     int           // names that are mirrored at a time
	Retry    time.Duration // after which names that have failed are tried again
	StateDir string        // an existing folder with the progress of large copies

	Report func(Event) // receives each Event; calls do not overlap
}

// State is all that a mirror has to remember. Without it, it compares.
type State struct {
	Position string          `json:"position"`       // the changes up to it are applied
	Compared time.Time       `json:"compared"`       // when the last comparison ended
	AsOf     time.Time       `json:"asOf"`           // the target has the source's blobs of this time
	Blobs    int64           `json:"blobs"`          // that the target has
	Late     map[string]Late `json:"late,omitempty"` // except those with these names, as account/name

	// The brake: deletions since a time, of the blobs that the target had then.
	Since   time.Time `json:"since"`
	Had     int64     `json:"had"`
	Deleted int64     `json:"deleted"`
	Stopped bool      `json:"stopped,omitempty"` // the next one is too many
}

// Late is why a name is not mirrored yet.
type Late struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // why it has failed; "": it is large
}

// Event reports an action.
type Event struct {
	Time    time.Time `json:"time"`
	Kind    string    `json:"event"`             // copied, updated, deleted, failed, away, comparing or compared
	Account string    `json:"account,omitempty"` // in the target
	Name    string    `json:"name,omitempty"`
	Size    int64     `json:"size,omitempty"`
	Reason  string    `json:"reason,omitempty"` // of failed and away
}

// Figures are a mirror's state, and its actions since Run was called.
type Figures struct {
	Lag     float64          `json:"lag"`     // for how many seconds the target may lack changes; -1: not known
	Failed  int              `json:"failed"`  // names that will be tried again, and count for no lag
	Actions map[string]int64 `json:"actions"` // copied, updated, deleted: numbers of blobs
	Bytes   int64            `json:"bytes"`   // that were copied
}

// Mirror mirrors. Run may be called once, and Figures concurrently.
type Mirror struct {
	o      Options
	large  chan struct{} // has an element for each large blob that is being copied
	report sync.Mutex    // serializes Options.Report

	stop       context.CancelCauseFunc // ends the round
	background sync.WaitGroup          // for large copies and retries in a round

	mu      sync.Mutex // guards the fields below
	state   State
	figures Figures
	busy    map[string]bool // names that are being mirrored; false: and have changed since
	caught  bool            // there is no further change
	heard   time.Time       // when the source's last page came
	saved   time.Time
}

// New returns a mirror. It returns client.ErrInvalid if one side contains the other.
func New(o Options) (*Mirror, error) {
	from, to := o.From, o.To
	if (from.Account == "") != (to.Account == "") || from.Account+to.Account == "" && from.Prefix+to.Prefix != "" {
		return nil, fmt.Errorf("client/mirror: %w: either both sides have an account, or none has", client.ErrInvalid)
	}
	if strings.EqualFold(from.Client.URL(), to.Client.URL()) && from.Account == to.Account && (strings.HasPrefix(from.Prefix, to.Prefix) || strings.HasPrefix(to.Prefix, from.Prefix)) {
		return nil, fmt.Errorf("client/mirror: %w: one side contains the other", client.ErrInvalid)
	}
	m := &Mirror{o: o, large: make(chan struct{}, largeAtATime), state: o.State, figures: Figures{Actions: map[string]int64{}}}
	m.state.Late = map[string]Late{}
	maps.Copy(m.state.Late, o.State.Late)
	if o.Once {
		m.state.Position = ""
	}
	return m, nil
}

// Run mirrors until ctx ends, or with Options.Once for one comparison. It waits for a service that
// is away, unless the source has never responded. It returns ErrBrake, ErrFailed if a single
// comparison could not mirror all names or if very many fail, and any error that concerns all
// names, such as that a key is refused.
func (m *Mirror) Run(ctx context.Context) error {
	for pause := time.Second; ; {
		began := time.Now()
		err := m.round(ctx)
		if failed := m.save(); failed != nil {
			return errors.Join(err, failed)
		}
		refused, _ := errors.AsType[*client.Error](err)
		switch {
		case errors.Is(err, errNext):
			continue
		case refused != nil && refused.Code == wire.CodeChangesGone:
			if before, _, _ := strings.Cut(m.state.Position, "-"); m.o.MaxDeletions < 100 && !strings.HasPrefix(refused.Restart, before+"-") {
				return fmt.Errorf("%w: the source was restored or set back, and may lack blobs that the target has", ErrBrake)
			}
			m.state.Position = ""
			continue
		case ctx.Err() != nil, err == nil, m.o.Once, m.heard.IsZero() && m.o.State.Position == "", stops(err):
			return cmp.Or(err, ctx.Err())
		}
		m.tell(Event{Kind: "away", Reason: err.Error()})
		if pause = min(2*pause, longestPause); time.Since(began) > longestPause {
			pause = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Figures returns the state and the actions until now.
func (m *Mirror) Figures() (f Figures) {
	m.note(func() {
		f = m.figures
		f.Actions = maps.Clone(f.Actions)
		now, asOf := time.Now(), m.state.AsOf
		if m.caught && now.Sub(m.heard) < quiet {
			asOf = now
		}
		for _, l := range m.state.Late {
			if l.Reason != "" {
				f.Failed++
			} else if l.Since.Before(asOf) {
				asOf = l.Since
			}
		}
		if f.Lag = max(0, now.Sub(asOf).Seconds()); asOf.IsZero() {
			f.Lag = -1
		}
	})
	return f
}

// note calls change with mu.
func (m *Mirror) note(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// tell counts an event and passes it to Options.Report.
func (m *Mirror) tell(e Event) {
	m.note(func() {
		m.figures.Actions[e.Kind]++
		if e.Kind == "copied" {
			m.figures.Bytes += e.Size
		}
	})
	m.report.Lock()
	defer m.report.Unlock()
	e.Time = time.Now()
	m.o.Report(e)
}

// save saves the state, unless a first comparison has not ended.
func (m *Mirror) save() (err error) {
	var state State
	m.note(func() {
		state, m.saved = m.state, time.Now()
		state.Late = maps.Clone(state.Late)
	})
	if state.Position != "" {
		if err = m.o.Save(state); err != nil {
			err = fmt.Errorf("%w: %w", errSave, err)
		}
	}
	return err
}

// stops reports whether a mirror ends with an error.
func stops(err error) bool {
	refused, _ := errors.AsType[*client.Error](err)
	return anyOf(err, ErrBrake, ErrFailed, errSave, errNoETag, client.ErrUnauthorized, client.ErrPaymentRequired) ||
		refused != nil && (refused.Code == wire.CodeScopeMissing || refused.Code == wire.CodeAccountForbidden)
}

func anyOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
