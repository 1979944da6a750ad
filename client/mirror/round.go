package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/client"
	"sluice/wire"
)

// item is a name to mirror.
type item struct {
	account, name string       // in the source; without the prefix
	kind          string       // its last change's
	from, to      *client.Blob // if they were listed
	listed        bool
	waits         bool // for its copy even if it is large
	counted       bool // its deletion is
}

func (i *item) key() string { return i.account + "/" + i.name }

// round compares if it is time to, and then follows the changes until an error.
func (m *Mirror) round(ctx context.Context) error {
	ctx, m.stop = context.WithCancelCause(ctx)
	defer m.background.Wait()
	defer m.stop(nil)
	m.note(func() { m.caught, m.busy = false, map[string]bool{} })
	if m.state.Position == "" || m.due() {
		if err := m.compare(ctx); err != nil || m.o.Once {
			return err
		}
	}
	m.background.Go(func() { m.retry(ctx) })
	changed, n, last := map[string]item{}, 0, time.Time{}
	passed := func(position string) {
		heard, asOf, caught := time.Now(), last, n < wire.MaxPageSize
		if caught {
			asOf = heard
		}
		if m.each(ctx, maps.Values(changed)) == nil {
			m.note(func() { m.state.Position, m.state.AsOf, m.heard, m.caught = position, asOf, heard, caught })
			if time.Since(m.saved) > time.Second {
				m.stopWith(m.save())
			}
			if m.due() {
				m.stop(errNext)
			}
		}
		n = 0
		clear(changed)
	}
	o := client.ChangesOptions{Account: m.o.From.Account, Prefix: m.o.From.Prefix, After: m.state.Position, Passed: passed}
	for c, err := range m.o.From.Client.Changes(ctx, o) {
		if err != nil {
			m.stop(err)
			break
		}
		if n++; n == 1 {
			m.note(func() { m.state.AsOf, m.caught = c.Time, false })
		}
		last = c.Time
		i := item{account: cmp.Or(m.o.From.Account, c.Account), name: strings.TrimPrefix(c.Name, m.o.From.Prefix), kind: c.Kind}
		changed[i.key()] = i
	}
	return context.Cause(ctx)
}

// retry mirrors the names that are late again and again, until ctx ends.
func (m *Mirror) retry(ctx context.Context) {
	tick := time.NewTicker(m.o.Retry)
	defer tick.Stop()
	for ctx.Err() == nil {
		var late []item
		m.note(func() {
			for key := range m.state.Late {
				account, name, _ := strings.Cut(key, "/")
				late = append(late, item{account: account, name: name})
			}
		})
		_ = m.each(ctx, slices.Values(late)) // an error has ended the round
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// due reports whether it is time to compare.
func (m *Mirror) due() bool {
	return m.o.Compare > 0 && time.Since(m.state.Compared) >= m.o.Compare
}

// stopWith ends the round with an error, unless it is nil.
func (m *Mirror) stopWith(err error) {
	if err != nil {
		m.stop(err)
	}
}

// each mirrors names, some at a time. Large blobs may be copied in the background after that. An
// error that concerns all names ends the round, and is returned.
func (m *Mirror) each(ctx context.Context, items iter.Seq[item]) error {
	slots := make(chan struct{}, m.o.Jobs)
	var running sync.WaitGroup
	for i := range items {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			m.one(ctx, &i)
			<-slots
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// one mirrors a name. If that is in progress, it is done once more after that.
func (m *Mirror) one(ctx context.Context, i *item) {
	skip := false
	m.note(func() {
		_, skip = m.busy[i.key()]
		m.busy[i.key()] = !skip
	})
	if skip {
		return
	}
	err := m.mirror(ctx, i)
	if !errors.Is(err, errLarge) {
		m.end(ctx, i, err)
		return
	}
	m.note(func() { m.state.Late[i.key()] = m.late(i.key(), "") })
	i.waits = true
	m.background.Go(func() { m.end(ctx, i, m.mirror(ctx, i)) })
}

// end notes how a name's mirroring has ended. An error that concerns all names ends the round;
// after any other the name is late.
func (m *Mirror) end(ctx context.Context, i *item, err error) {
	key, isNew := i.key(), false
	for again := true; again; {
		if err != nil && m.concernsAll(ctx, err) {
			m.stop(err)
			return
		}
		m.note(func() {
			if again = !m.busy[key]; again {
				m.busy[key] = true
				return
			}
			if delete(m.busy, key); err == nil {
				delete(m.state.Late, key)
				return
			}
			isNew = m.state.Late[key].Reason != err.Error()
			m.state.Late[key] = m.late(key, err.Error())
			if len(m.state.Late) > mostLate {
				m.stop(fmt.Errorf("%w: %d, such as %s: %w", ErrFailed, mostLate, key, err))
			}
		})
		if again {
			i.listed = false
			err = m.mirror(ctx, i)
		}
	}
	if isNew {
		m.tell(Event{Kind: "failed", Account: i.account, Name: m.o.From.Prefix + i.name, Reason: err.Error()})
	}
}

// late returns why a name is late, which may be so for longer. The caller holds mu.
func (m *Mirror) late(key, reason string) Late {
	if before, was := m.state.Late[key]; was {
		return Late{before.Since, reason}
	}
	return Late{time.Now(), reason}
}
