package folder

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"sluice/client"
)

// ErrNoVersion is the reason why Restore fails for a single blob.
var ErrNoVersion = errors.New("no such version of the blob is kept")

// Restore makes blobs current again as they were at a time, while it lists their versions, so that
// few of them are in memory. An item that is a whole account, or ends in a slash, means all blobs
// below it. The result is as Run returns it.
//
// If the time is zero, it restores the blobs that are deleted, each as it was before, but not those
// below a prefix that have expired or were removed by a rule. Otherwise it also replaces blobs that
// have other content since. It deletes nothing, and leaves alone a blob that changes meanwhile or
// has the content already. A restored blob expires as the version does, or never if that is past.
func (b *Batch) Restore(ctx context.Context, of []Item, at time.Time) (Summary, error) {
	b.report(Event{Kind: Restoring, Number: -1})
	return b.runListed(ctx, func(yield func(job, error) bool) {
		for _, place := range of {
			for h, err := range histories(ctx, place, at) {
				j := job{source: Item{Client: place.Client, Account: place.Account, Name: h.name}, does: Restored, run: h.restore(place, b.o.DryRun)}
				if (err != nil || h.then != nil || !place.all()) && !yield(j, err) {
					return
				}
			}
		}
	})
}

// all reports whether the item means all blobs below it.
func (i Item) all() bool { return i.Name == "" || strings.HasSuffix(i.Name, "/") }

// history is the part of a blob's versions that matters at a time.
type history struct {
	name    string
	current *client.VersionEntry // nil: it is deleted
	then    *client.VersionEntry // as it was; nil: no such version is kept
	mark    *client.VersionEntry // its newest deletion; nil: there is none
	decided bool
}

// histories returns the histories of an item's blobs. A single blob has one even without versions.
func histories(ctx context.Context, place Item, at time.Time) iter.Seq2[history, error] {
	return func(yield func(history, error) bool) {
		h := history{name: place.Name}
		for e, err := range place.Client.Versions(ctx, place.Account, client.ListOptions{Prefix: place.Name}) {
			switch {
			case err != nil:
				yield(h, &Error{Source: place, Err: err})
				return
			case e.Name != h.name:
				if !yield(h, nil) || !place.all() {
					return
				}
				h = history{name: e.Name}
			}
			h.add(&e, at, place.all())
		}
		yield(h, nil)
	}
}

// add adds the next older version.
func (h *history) add(e *client.VersionEntry, at time.Time, below bool) {
	if e.Current {
		h.current = e
	}
	if e.Deleted && h.mark == nil {
		h.mark = e
	}
	if h.decided || at.IsZero() && e.Deleted || !at.IsZero() && e.LastModified.After(at) {
		return
	}
	h.decided = true
	ended := !e.Since.IsZero() && !at.IsZero() && !e.Since.After(at)
	expired := !e.Since.IsZero() && !e.Expires.IsZero() && !e.Since.Before(e.Expires) || h.mark != nil && strings.HasPrefix(h.mark.By, "rule:")
	if !e.Deleted && !ended && (!expired || !below || !at.IsZero()) {
		h.then = e
	}
}

// restore returns the function that a job runs.
func (h *history) restore(in Item, dryRun bool) func(context.Context, func(done, total int64)) (outcome, error) {
	of := client.BlobName{Account: in.Account, Name: h.name}
	return func(ctx context.Context, _ func(done, total int64)) (outcome, error) {
		now, then := h.current, h.then
		if then == nil {
			return outcome{}, ErrNoVersion
		}
		result := outcome{size: then.Size, etag: then.ETag}
		o := client.CopyOptions{Version: then.Version, Target: client.TargetConditions{IfAbsent: now == nil}}
		if now != nil {
			o.Target.IfMatch = now.ETag
			result.unchanged = now.Version == then.Version || now.ETag == then.ETag && then.ETag != ""
		}
		if result.unchanged || dryRun {
			return result, nil
		}
		if then.Expires.After(time.Now()) {
			o.Expires = then.Expires
		}
		_, err := in.Client.Copy(ctx, of, of, o)
		if errors.Is(err, client.ErrOutcomeUnknown) { // a repeated request may find its own result
			if b, headErr := in.Client.Head(ctx, of.Account, of.Name); headErr == nil && b.ETag == then.ETag {
				err = nil
			}
		}
		return result, err
	}
}
