package mirror

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"sluice/client"
)

// compare lists both sides, and mirrors the names that differ, at last those that the source lacks.
func (m *Mirror) compare(ctx context.Context) error {
	m.tell(Event{Kind: "comparing"})
	position, asOf := m.state.Position, m.state.AsOf
	if position == "" { // the changes that the listings miss are behind this one
		at, now := context.WithCancel(ctx)
		passed := func(p string) { position = p; now() }
		for _, err := range m.o.From.Client.Changes(at, client.ChangesOptions{Account: m.o.From.Account, Prefix: m.o.From.Prefix, Passed: passed}) {
			if err != nil && position == "" { // another error is due to now
				now()
				return err
			}
		}
		asOf = time.Now()
		m.note(func() { m.heard, m.state.Late = asOf, map[string]Late{} })
	}
	var doomed []item
	var source, target int64 // blobs
	err := m.each(ctx, func(yield func(item) bool) {
		accounts, err := m.accounts(ctx)
		for _, account := range accounts {
			if err == nil {
				err = m.merge(ctx, account, func(name string, from, to *client.Blob) bool {
					i := item{account: account, name: name, from: from, to: to, listed: true, waits: true}
					if from != nil {
						source++
					}
					if to != nil {
						target++
					}
					if from == nil {
						i.listed, i.counted = false, true
						doomed = append(doomed, i)
						return true
					}
					return yield(i)
				})
			}
		}
		m.stopWith(err)
	})
	if err != nil {
		return err
	}
	if source == 0 && target > 0 && m.o.MaxDeletions < 100 {
		return fmt.Errorf("%w: the source is empty, and the target has %d blobs", ErrBrake, target)
	}
	m.note(func() {
		if !m.state.Stopped {
			m.state.Deleted = 0
		}
		m.state.Since, m.state.Had = time.Now(), target
		err = m.brake(int64(len(doomed)))
	})
	if err == nil {
		err = m.each(ctx, slices.Values(doomed))
	}
	if err != nil {
		return err
	}
	m.note(func() {
		m.state.Position, m.state.AsOf, m.state.Compared, m.state.Blobs = position, asOf, time.Now(), source
		m.state.Since, m.state.Had, m.state.Deleted = m.state.Compared, source, 0
		if n := len(m.state.Late); m.o.Once && n > 0 {
			err = fmt.Errorf("%w: %d", ErrFailed, n)
		}
	})
	m.tell(Event{Kind: "compared"})
	return err
}

// accounts returns the accounts to compare.
func (m *Mirror) accounts(ctx context.Context) (accounts []string, err error) {
	if m.o.From.Account != "" {
		return []string{m.o.From.Account}, nil
	}
	for _, c := range []*client.Client{m.o.From.Client, m.o.To.Client} {
		for a, err := range c.Accounts(ctx) {
			if err != nil {
				return nil, err
			}
			accounts = append(accounts, a.Account)
		}
	}
	slices.Sort(accounts)
	return slices.Compact(accounts), nil
}

// merge calls yield with each name of an account, without the prefix, and the blobs that both sides
// list for it, or nil, until that returns false.
func (m *Mirror) merge(ctx context.Context, account string, yield func(name string, from, to *client.Blob) bool) error {
	next, stop := iter.Pull2(m.o.To.Client.List(ctx, m.account(account), client.ListOptions{Prefix: m.o.To.Prefix, Metadata: true}))
	defer stop()
	var to *client.Blob // nil: there are no more
	var toName string
	advance := func() error {
		e, err, more := next()
		if to = nil; more && err == nil {
			to, toName = &e.Blob, strings.TrimPrefix(e.Name, m.o.To.Prefix)
		}
		return err
	}
	err := advance()
	for from, failed := range m.o.From.Client.List(ctx, account, client.ListOptions{Prefix: m.o.From.Prefix, Metadata: true}) {
		name := strings.TrimPrefix(from.Name, m.o.From.Prefix)
		for ; err == nil && failed == nil && to != nil && toName < name; err = advance() {
			if !yield(toName, nil, to) {
				return nil
			}
		}
		if err = cmp.Or(err, failed); err != nil {
			return err
		}
		var same *client.Blob
		if to != nil && toName == name {
			same = to
			err = advance()
		}
		if !yield(name, &from.Blob, same) {
			return nil
		}
	}
	for ; err == nil && to != nil; err = advance() {
		if !yield(toName, nil, to) {
			return nil
		}
	}
	return err
}

// brake counts deletions, and returns ErrBrake if they are too many. The caller holds mu.
func (m *Mirror) brake(n int64) error {
	s := &m.state
	deleted := s.Deleted + n
	if s.Stopped = m.o.MaxDeletions < 100 && deleted > max(few, s.Had*int64(m.o.MaxDeletions)/100); s.Stopped {
		return fmt.Errorf("%w: %d of its %d blobs would be deleted, more than %d percent", ErrBrake, deleted, s.Had, m.o.MaxDeletions)
	}
	s.Deleted = deleted
	return nil
}

// permit counts the deletion of a blob, unless it does not count, or is counted.
func (m *Mirror) permit(i *item, b *client.Blob) (err error) {
	m.note(func() {
		s := &m.state
		if !s.Stopped && time.Since(s.Since) > time.Hour {
			s.Since, s.Had, s.Deleted = time.Now(), s.Blobs, 0
		}
		if !i.counted && i.kind != "moved-from" && i.kind != "expired" && !b.LastModified.After(s.Since) {
			err = m.brake(1)
		}
	})
	return err
}
