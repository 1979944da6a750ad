package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"sluice/database"
	"sluice/history"
	"sluice/ledger"
	"sluice/storage"
)

// KeptFor is how long objects are kept after a recovery that the lost changes may have stored.
const KeptFor = 30 * 24 * time.Hour

// maxNamed is how many blobs without their objects Setback names.
const maxNamed = 1000

// Setback describes an instance that was set back, as far as the surviving data show it.
type Setback struct {
	Generation int64
	Seen       string // how it was seen, in lines; "" if it was not set back
	Holds      bool   // the database holds the bytes, or no database does

	storage.Differences // of its objects, with at most maxNamed blobs

	Channels      int64    // that were read from the chain
	Withdrawn     int64    // units that the chain shows as withdrawn and the database did not
	WithdrawnFrom []string // the ids of their channels
	Unread        []Unread // channels that could not be read from the chain, sorted by sender

	Returned Returned // what may have ended since then

	wrongID bool // the object history.InstanceObject is not as it should be
}

// Unread are a sender's channels that could not be read from the chain.
type Unread struct {
	Sender   string
	Channels int
	Err      error
}

// ReadChannels reads one or more channels of one sender and receiver from the chain. With an error,
// skip reports whether other channels may be readable nevertheless.
type ReadChannels func(context.Context, ...ledger.Channel) (readings []ledger.Reading, skip bool, err error)

// RecoverOptions are Recover's options.
type RecoverOptions struct {
	// ReadChannels is nil if there is no chain. Channels that it skips are Unread.
	ReadChannels ReadChannels
	// Confirm is called with the Setback before anything is changed. An error ends the recovery.
	Confirm func(Setback) error
}

// Recover adopts an instance that was set back, as it is, and begins its next generation, in which
// it accepts changes again. It makes the database the holder of its bytes, whichever database held
// them. Objects that nothing refers to are kept for KeptFor. The readings of channels from the
// chain are recorded; channels in Setback.Unread stay as they are.
//
// A server must not run on the instance's data folder; nodes without a part in a folder may run.
// Recover returns ErrNotSetBack if there is nothing to recover. If it is interrupted, the same call
// completes it.
func Recover(ctx context.Context, l Location, opt RecoverOptions) (_ Setback, generation int64, err error) {
	if err := checkLocation(l); err != nil {
		return Setback{}, 0, err
	}
	e, err := storage.OpenEndpoint(ctx, l, true, nil)
	if err != nil {
		return Setback{}, 0, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	found, err := examine(ctx, e)
	if err != nil {
		return found, 0, err
	}
	if found.Seen == "" && found.Holds {
		return found, 0, ErrNotSetBack
	}
	readings, err := readChannels(ctx, e.SQL, opt.ReadChannels, &found)
	if err != nil {
		return found, 0, fmt.Errorf("reading channels from the chain: %w", err)
	}
	if found.Returned, err = returned(ctx, e.SQL); err != nil {
		return found, 0, err
	}
	if err := opt.Confirm(found); err != nil {
		return found, 0, err
	}
	for id, r := range readings {
		if _, err := e.SQL.RecordReading(ctx, id, r); err != nil {
			return found, 0, err
		}
	}
	if found.wrongID {
		if err := writeID(ctx, e, found.Differences); err != nil {
			return found, 0, err
		}
	}
	now := e.SQL.Now()
	generation, err = history.Recover(ctx, e.SQL, e.Bytes, database.KeptObjects{MadeBefore: now, Until: now.Add(KeptFor)})
	if err != nil {
		return found, 0, err
	}
	return found, generation, e.Adopt()
}

// ErrNotSetBack is returned by Recover if the instance was not set back, as far as it shows.
var ErrNotSetBack = errors.New("the instance was not set back")

// ReleaseObjects ends the time for which a recovery keeps objects that nothing refers to: the next
// sweep deletes them.
func ReleaseObjects(ctx context.Context, l Location) error {
	stores, err := storage.OpenMeta(ctx, l, false)
	if err != nil {
		return err
	}
	return errors.Join(stores.Meta.ReleaseObjects(ctx), stores.Close())
}

// examine compares an instance's parts.
func examine(ctx context.Context, e *storage.Endpoint) (found Setback, err error) {
	now, how, holds, err := history.Compare(ctx, e.SQL, e.Bytes)
	if err != nil {
		return found, err
	}
	found.Generation, found.Seen, found.Holds = now.Generation, how, holds
	if found.Differences, err = e.Compare(ctx, maxNamed); err != nil {
		return found, err
	}
	wrong, err := wrongID(ctx, e)
	if err != nil {
		return found, err
	}
	if found.wrongID = wrong != ""; found.wrongID && found.Seen == "" {
		found.Seen = "this command: " + wrong
	}
	if e.Look.Why != "" && found.Seen == "" { // no server has started on it, which would have seen it
		e.Look.Found = found.Differences
		if how := e.Look.SetBack(); how != "" {
			found.Seen = "this command: " + how
		}
	}
	return found, nil
}

// readChannels reads all channels from the chain, in one call for each sender and receiver. It
// reads none if read is nil.
func readChannels(ctx context.Context, meta ledger.Inspection, read ReadChannels, found *Setback) (map[string]ledger.Reading, error) {
	if read == nil {
		return nil, nil
	}
	byParties, err := openChannels(ctx, meta)
	if err != nil {
		return nil, err
	}
	readings := map[string]ledger.Reading{}
	for _, parties := range slices.SortedFunc(maps.Keys(byParties), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) }) {
		channels := byParties[parties]
		got, skip, err := read(ctx, channels...)
		if err != nil && skip {
			found.Unread = append(found.Unread, Unread{Sender: parties[0], Channels: len(channels), Err: err})
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", parties[0], err)
		}
		for i, c := range channels {
			readings[c.ID] = got[i]
			found.Channels++
			if more := got[i].Withdrawn - c.Withdrawn; more > 0 {
				found.Withdrawn += more
				found.WithdrawnFrom = append(found.WithdrawnFrom, c.ID)
			}
		}
	}
	return readings, nil
}

// openChannels returns the channels that have a sender and are not closed, without their proofs, by
// sender and receiver.
func openChannels(ctx context.Context, meta ledger.Inspection) (map[[2]string][]ledger.Channel, error) {
	const page = 200
	byParties := map[[2]string][]ledger.Channel{}
	for after := ""; ; {
		list, err := meta.ListChannels(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			after, c.Proof = c.ID, nil
			if parties := [2]string{c.Sender, c.Receiver}; c.Sender != "" && c.Closed.IsZero() {
				byParties[parties] = append(byParties[parties], c)
			}
		}
		if len(list) < page {
			return byParties, nil
		}
	}
}
