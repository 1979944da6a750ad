package history

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"sluice/database"
)

// CommitsProperty is the property that counts a database's commits. All copies inherit it: a copy
// that has made no commits since has at most as many as its original.
const CommitsProperty = "commits"

// commitCount counts commits in memory, and adds them to CommitsProperty from time to time. Commits
// since then are missing after a crash. Its methods may be called concurrently.
type commitCount struct {
	props     database.Properties
	uncounted atomic.Int64 // commits that the property does not include

	mu sync.Mutex // held by flush
}

func (c *commitCount) add() { c.uncounted.Add(1) }

// stored returns the property's value.
func (c *commitCount) stored(ctx context.Context) (int64, error) {
	_, n, err := c.read(ctx)
	return n, err
}

// read returns the property, as text too; the text is empty if there is no property.
func (c *commitCount) read(ctx context.Context) (text string, n int64, err error) {
	text, err = c.props.Property(ctx, CommitsProperty)
	if errors.Is(err, database.ErrNotFound) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, err
	}
	if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 {
		return "", 0, fmt.Errorf("the property %s is %q, which is not a count", CommitsProperty, text)
	}
	return text, n, nil
}

// flush adds the uncounted commits to the property. If it returns an error, they are counted by a
// later call, and perhaps twice.
func (c *commitCount) flush(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	more := c.uncounted.Load()
	for more > 0 {
		text, n, err := c.read(ctx)
		if err != nil {
			return err
		}
		sum := strconv.FormatInt(n+more, 10)
		if text == "" {
			err = c.props.SetProperty(ctx, CommitsProperty, sum)
		} else {
			err = c.props.ReplaceProperty(ctx, CommitsProperty, text, sum)
		}
		switch {
		case err == nil:
			c.uncounted.Add(-more)
			return nil
		case !errors.Is(err, database.ErrExists) && !errors.Is(err, database.ErrNotFound):
			return err
		}
		// Another of the database's nodes was first.
	}
	return nil
}
