package folder

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sluice/client"
)

// Move adds the blobs below a prefix, which get names below another prefix of the same service. It
// lists the source. A later run moves the blobs that an interrupted one has left. The error is
// ErrEmpty if there are none, and client.ErrInvalid if one prefix contains the other: a second run
// would move the moved blobs again.
func (b *Batch) Move(ctx context.Context, from, to Prefix) error {
	if from.Account == to.Account && (strings.HasPrefix(from.name(), to.name()) || strings.HasPrefix(to.name(), from.name())) {
		return fmt.Errorf("%w: %s and %s contain each other", client.ErrInvalid, from.item(""), to.item(""))
	}
	n := len(b.transfers)
	for e, err := range from.Client.List(ctx, from.Account, client.ListOptions{Prefix: from.name()}) {
		if err != nil {
			b.transfers = b.transfers[:n]
			return &Error{Source: from.item(""), Err: err}
		}
		b.addMove(from.item(strings.TrimPrefix(e.Name, from.name())), to.item(strings.TrimPrefix(e.Name, from.name())), &e.Blob)
	}
	if len(b.transfers) == n {
		return ErrEmpty
	}
	return nil
}

// MoveBlob adds a single blob, which gets another name in the same service. It fails with a
// *NoSourceError if there is no such blob, but one that has its new name.
func (b *Batch) MoveBlob(from, to Item) { b.addMove(from, to, nil) }

// addMove adds the job that moves a blob. listed is nil if the blob was not listed.
func (b *Batch) addMove(from, to Item, listed *client.Blob) {
	size := int64(-1)
	if listed != nil {
		size = listed.Size
	}
	run := func(ctx context.Context, progress func(done, total int64)) (outcome, error) {
		moved, err := b.move(ctx, from, to, listed)
		if err != nil {
			return outcome{}, explainMove(ctx, to, err)
		}
		progress(moved.Size, moved.Size)
		return outcome{size: moved.Size, etag: moved.ETag}, nil
	}
	b.transfers = append(b.transfers, job{source: from, target: to, size: size, moves: true, run: run})
}

// move moves a blob, or in a dry run returns the blob that would be moved.
func (b *Batch) move(ctx context.Context, from, to Item, listed *client.Blob) (client.Blob, error) {
	switch {
	case !b.o.DryRun:
		return from.Client.Move(ctx, from.blobName(), to.blobName(), client.MoveOptions{})
	case listed != nil:
		return *listed, nil
	default:
		return from.Client.Head(ctx, from.Account, from.Name)
	}
}

// explainMove returns a move's error. If there is no source, it is a *NoSourceError if there is a
// blob with the target's name, as after an earlier move that lost its response.
func explainMove(ctx context.Context, to Item, err error) error {
	if !errors.Is(err, client.ErrNotFound) {
		return err
	}
	has, headErr := to.Client.Head(ctx, to.Account, to.Name)
	if headErr != nil { // nothing more is known
		return err
	}
	return &NoSourceError{has, err}
}
