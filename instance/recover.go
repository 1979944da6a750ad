package instance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/database"
	"sluice/internal/storage"
	"sluice/ledger"
	"sluice/metastore"
	"sluice/past"
)

// KeptFor is how long objects are kept after a recovery that the lost changes may have stored.
const KeptFor = 30 * 24 * time.Hour

// maxNamed is how many blobs without their objects Setback names.
const maxNamed = 1000

// Setback is what is known of an instance that was set back, from what survived.
type Setback struct {
	Generation int64
	Seen       string // how it was seen, in lines; "" if it was not set back
	Holds      bool   // the database holds the bytes, or no database does

	// Unknown are the objects that nothing refers to. Their names say when they were made.
	Unknown       int64
	UnknownBytes  int64
	First, Last   time.Time
	Missing       int64    // objects that blobs refer to and that are missing or cut
	MissingBytes  int64    // that they should have
	Damaged       []Named  // blobs that refer to them, at most maxNamed
	DamagedBlobs  int64    // how many
	Channels      int64    // that were read from the chain
	Withdrawn     int64    // units that the chain shows as withdrawn and the database did not
	WithdrawnFrom []string // the ids of their channels
}

// Named names a blob.
type Named struct{ Account, Name string }

// RecoverOptions say how to recover.
type RecoverOptions struct {
	// ReadChannel reads a channel from the chain. nil: there is none.
	ReadChannel func(context.Context, ledger.Channel) (ledger.Reading, error)
	// Confirm is called with what is known before anything is changed. An error ends the recovery.
	Confirm func(Setback) error
}

// Recover adopts an instance that was set back, as it is, and begins its next generation, in which
// it accepts changes again. It makes the database the holder of its bytes, whichever database held
// them. Objects that nothing refers to are kept for KeptFor. What the chain shows of channels is
// recorded.
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
	readings, err := readChannels(ctx, e.SQL, opt.ReadChannel, &found)
	if err != nil {
		return found, 0, fmt.Errorf("reading channels from the chain: %w", err)
	}
	if err := opt.Confirm(found); err != nil {
		return found, 0, err
	}
	for id, r := range readings {
		if _, err := e.SQL.RecordReading(ctx, id, r); err != nil {
			return found, 0, err
		}
	}
	if !found.Holds {
		if err := blob.TakeOver(ctx, e.SQL, e.Bytes); err != nil {
			return found, 0, err
		}
	}
	now := e.SQL.Now()
	generation, err = past.Begin(ctx, e.SQL, e.Bytes, database.KeptObjects{MadeBefore: now, Until: now.Add(KeptFor)})
	return found, generation, err
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
	now, how, err := past.Compare(ctx, e.SQL, e.Bytes)
	if err != nil {
		return found, err
	}
	found.Generation, found.Seen = now.Generation, how
	if found.Holds, err = blob.Holds(ctx, e.SQL, e.Bytes); err != nil {
		return found, err
	}
	missing := map[metastore.ContentID]bool{}
	err = compareObjects(ctx, e, func(o storage.Object) {
		found.Missing++
		found.MissingBytes += o.Size
		missing[o.Content] = true
	}, func(o bytestore.Object, made time.Time) {
		if found.Unknown == 0 || made.Before(found.First) {
			found.First = made
		}
		if made.After(found.Last) {
			found.Last = made
		}
		found.Unknown++
		found.UnknownBytes += o.Size
	})
	if err != nil || len(missing) == 0 {
		return found, err
	}
	return found, eachBlob(ctx, e.SQL, func(b metastore.Blob) {
		if !missing[b.Content] {
			return
		}
		if found.DamagedBlobs++; len(found.Damaged) < maxNamed {
			found.Damaged = append(found.Damaged, Named{b.Account, b.Name})
		}
	})
}

// compareObjects calls missing for each object that the metadata refer to and that is missing or
// has another size, and unknown for each object that they do not refer to. It merges two sorted
// lists.
func compareObjects(ctx context.Context, e *storage.Endpoint, missing func(storage.Object), unknown func(bytestore.Object, time.Time)) error {
	known := objectIterator{endpoint: e}
	if err := known.next(ctx); err != nil {
		return err
	}
	before := func(name bytestore.Name) error { // an empty name is after all others
		for !known.done && (name == "" || known.current.Object < string(name)) {
			if !known.current.Garbage {
				missing(known.current)
			}
			if err := known.next(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	err := e.Bytes.List(ctx, "", func(o bytestore.Object) error {
		if err := before(o.Name); err != nil {
			return err
		}
		if known.done || known.current.Object != string(o.Name) {
			if made, ok := o.Name.Created(); ok {
				unknown(o, made)
			}
			return nil
		}
		if o.Size != known.current.Size && !known.current.Garbage {
			missing(known.current)
		}
		return known.next(ctx)
	})
	if err != nil {
		return err
	}
	return before("")
}

// eachBlob calls fn with each blob that has not expired.
func eachBlob(ctx context.Context, meta metastore.Store, fn func(metastore.Blob)) error {
	const page = 1000
	for after := ""; ; {
		accounts, err := meta.ListAccounts(ctx, after, page)
		if err != nil {
			return err
		}
		for _, a := range accounts {
			for q := (metastore.ListQuery{Account: a.Account, Limit: page}); ; {
				list, err := meta.ListBlobs(ctx, q)
				if err != nil {
					return err
				}
				for _, b := range list.Blobs {
					fn(b)
				}
				if q.After = list.Next; q.After == "" {
					break
				}
			}
			after = a.Account
		}
		if len(accounts) < page {
			return nil
		}
	}
}

// readChannels reads all channels from the chain. It reads none if read is nil.
func readChannels(ctx context.Context, meta ledger.Inspection, read func(context.Context, ledger.Channel) (ledger.Reading, error), found *Setback) (map[string]ledger.Reading, error) {
	const page = 200
	readings := map[string]ledger.Reading{}
	for after := ""; read != nil; {
		list, err := meta.ListChannels(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			after = c.ID
			if c.Sender == "" || !c.Closed.IsZero() {
				continue
			}
			r, err := read(ctx, c)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.ID, err)
			}
			readings[c.ID] = r
			found.Channels++
			if more := r.Withdrawn - c.Withdrawn; more > 0 {
				found.Withdrawn += more
				found.WithdrawnFrom = append(found.WithdrawnFrom, c.ID)
			}
		}
		if len(list) < page {
			break
		}
	}
	return readings, nil
}
