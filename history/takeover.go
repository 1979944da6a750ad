package history

import (
	"context"
	"errors"
	"strings"

	"sluice/bytestore"
	"sluice/database"
)

// TakeOver makes a database the holder of its bytes, whichever database held them. One that
// holds them now is fenced within seconds. It is for an operator who has decided with which one to
// continue. If it is interrupted, the database's next start completes it.
func TakeOver(ctx context.Context, props database.Properties, bytes bytestore.Store) error {
	f := &Fence{props: props, bytes: bytes, commits: &commitCount{props: props}}
	for {
		known, err := f.epoch(ctx)
		if err != nil {
			return err
		}
		latest, err := latestEpoch(ctx, bytes)
		if err != nil {
			return err
		}
		next := newEpoch(max(known.number, latest) + 1)
		// A holder looks for the next epoch if there is a claim to it, and may answer it.
		if err := f.claim(ctx, next.number); err != nil {
			return err
		}
		if known.number == 0 {
			err = props.SetProperty(ctx, EpochProperty, next.String())
		} else {
			err = props.ReplaceProperty(ctx, EpochProperty, known.String(), next.String())
		}
		if err != nil {
			return err
		}
		commits, err := f.commits.stored(ctx)
		if err != nil {
			return err
		}
		object := epochObject(next, commits)
		err = bytes.Put(ctx, epochName(next.number), strings.NewReader(object), int64(len(object)))
		if !errors.Is(err, bytestore.ErrExists) { // else another database has made it meanwhile
			return err
		}
	}
}

// Holds reports whether a database is the holder of its bytes, or no database is.
func Holds(ctx context.Context, props database.Properties, bytes bytestore.Store) (bool, error) {
	f := &Fence{props: props, bytes: bytes}
	known, err := f.epoch(ctx)
	if err != nil {
		return false, err
	}
	latest, err := latestEpoch(ctx, bytes)
	if err != nil || latest == 0 {
		return err == nil, err
	}
	nonce, err := ReadID(ctx, bytes.Open, epochName(latest))
	return nonce == known.nonce, err
}

// latestEpoch returns the number of the latest epoch that the bytes hold, or 0.
func latestEpoch(ctx context.Context, bytes bytestore.Store) (latest uint64, err error) {
	end := errors.New("no more epochs")
	err = bytes.List(ctx, bytestore.Name(epochPrefix), func(o bytestore.Object) error {
		n, ok := epochOfName(o.Name)
		if !ok {
			return end
		}
		if o.Name == epochName(n) {
			latest = max(latest, n)
		}
		return nil
	})
	if errors.Is(err, end) {
		err = nil
	}
	return latest, err
}
