package client

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/wire"
)

// ChangesOptions select the changes to follow.
type ChangesOptions struct {
	Account string   // "": all accounts, for a key with admin for them
	Prefix  string   // only changes under names that begin with it
	Kinds   []string // only these kinds, such as "stored"; nil: all
	// After is the position of a change, behind which the sequence begins, or "start" for the
	// oldest one that is kept. "": the sequence begins now.
	After string
	// Passed is called with each position up to which the sequence has returned all changes: at
	// first with the position at which it begins. It may be nil.
	Passed func(position string)
}

const (
	// longestWait is for how many seconds a response may wait for a change.
	longestWait = 50
	// awayPause bounds the pause, as pauseAfter has it, after which a service that is away is
	// asked again.
	awayPause = 5
)

// Changes returns changes in the order of commits, and waits for more until ctx ends or the caller
// leaves the loop. Once the service has responded, the sequence continues for as long as
// the service is away, wherever it was interrupted. It ends with the first other error: if changes
// are no longer known, that is an *Error with the code wire.CodeChangesGone, which is ErrGone. Then
// list the blobs, and follow the changes after its Restart.
func (c *Client) Changes(ctx context.Context, o ChangesOptions) iter.Seq2[wire.Change, error] {
	return func(yield func(wire.Change, error) bool) {
		r := newRequest("follow changes", http.MethodGet, "/v1/changes", readOnly)
		setNonEmpty(r.query, "account", o.Account)
		setNonEmpty(r.query, "prefix", o.Prefix)
		setNonEmpty(r.query, "kinds", strings.Join(o.Kinds, ","))
		setNonEmpty(r.query, "after", o.After)
		r.maxJSON, r.waits = maxPageJSON, true
		answered := false
		for idle := 0; ; {
			var page wire.ChangePage
			r.check = func() error { return checkChanges(&page, o.Prefix) }
			began := time.Now()
			_, err := c.call(ctx, r, &page)
			switch {
			case err != nil && ctx.Err() == nil && answered && away(err):
				if c.onOutage != nil {
					c.onOutage(err)
				}
				if waits(ctx, pauseAfter(awayPause)) {
					continue
				}
				fallthrough
			case err != nil:
				yield(wire.Change{}, cmp.Or(ctx.Err(), err))
				return
			}
			for _, change := range page.Changes {
				if !yield(change, nil) {
					return
				}
			}
			if o.Passed != nil {
				o.Passed(page.Next)
			}
			// A service that shuts down does not wait, and then is away.
			if idle++; len(page.Changes) > 0 || r.query.Get("after") != page.Next || !answered || time.Since(began) > time.Second {
				idle = 0
			} else if !waits(ctx, pauseAfter(idle)) {
				yield(wire.Change{}, cmp.Or(ctx.Err(), context.DeadlineExceeded)) // it would pass meanwhile
				return
			}
			answered = true
			r.query.Set("after", page.Next)
			// The first response shows where the sequence begins, without a wait.
			r.query.Set("wait", strconv.Itoa(min(longestWait, int(c.stall/2/time.Second))))
		}
	}
}

// checkChanges returns an error for a page that no service sends.
func checkChanges(page *wire.ChangePage, prefix string) error {
	if len(page.Changes) > wire.MaxPageSize {
		return invalid("changes", "has %d entries, and %d were requested", len(page.Changes), wire.MaxPageSize)
	}
	for i := range page.Changes {
		one := &page.Changes[i]
		b := Blob{Size: one.Size, ETag: one.ETag, ContentType: one.ContentType, Version: one.Version}
		if err := cmp.Or(checkID("position", one.Position), checkID("account", one.Account), checkWord("kind", one.Kind, maxWord), checkName("name", one.Name), b.check()); err != nil {
			return err
		}
		if !strings.HasPrefix(one.Name, prefix) {
			return invalid("name", "does not begin with the prefix: %s", shown(one.Name))
		}
	}
	return checkID("next", page.Next)
}
