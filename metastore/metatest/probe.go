package metatest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"sluice/database/whole"
	"sluice/internal/testclock"
	"sluice/ledger"
	"sluice/metastore"
)

// probe is a running check. Its methods end the check at the first violation, and must be called
// only on the goroutine of the check.
type probe struct {
	ctx   context.Context
	h     *Harness
	clock *testclock.Clock
	store whole.Database // the first handle
	keys  int            // number of keys created so far
}

// wrong is the value with which a probe panics to end its check.
type wrong struct{ err error }

// check returns the Check that calls fn with a probe.
func check(name string, fn func(p *probe)) Check {
	return Check{Name: name, Run: func(ctx context.Context, h *Harness) (err error) {
		defer func() {
			if r := recover(); r != nil {
				w, ok := r.(wrong)
				if !ok {
					panic(r)
				}
				err = fmt.Errorf("%s: %w", name, w.err)
			}
		}()
		p := &probe{ctx: ctx, h: h, clock: h.Clock}
		p.store = p.open()
		fn(p)
		return nil
	}}
}

func (p *probe) fail(format string, a ...any) { panic(wrong{fmt.Errorf(format, a...)}) }

// must ends the check unless the condition holds.
func (p *probe) must(ok bool, format string, a ...any) {
	if !ok {
		p.fail(format, a...)
	}
}

// ok ends the check if err is not nil.
func (p *probe) ok(err error, format string, a ...any) {
	if err != nil {
		p.fail("%s: %w", fmt.Sprintf(format, a...), err)
	}
}

// is ends the check unless err wraps target.
func (p *probe) is(err, target error, format string, a ...any) {
	if !errors.Is(err, target) {
		p.fail("%s: got error %v, want %v", fmt.Sprintf(format, a...), err, target)
	}
}

// errAny stands for any error, where the contract does not name one.
var errAny = errors.New("any error")

// matches reports whether err is equivalent to want, including amounts and stored bytes.
func matches(err, want error) bool {
	var funds, wantFunds *ledger.InsufficientFundsError
	var stale, wantStale *ledger.StaleError
	var limit, wantLimit *ledger.UnsettledLimitError
	switch {
	case want == nil || errors.Is(want, errAny):
		return (err == nil) == (want == nil)
	case errors.As(want, &wantFunds):
		return errors.As(err, &funds) && *funds == *wantFunds && errors.Is(err, ledger.ErrInsufficientFunds)
	case errors.As(want, &wantStale):
		return errors.As(err, &stale) && bytes.Equal(stale.Stored, wantStale.Stored) && errors.Is(err, ledger.ErrStalePayment)
	case errors.As(want, &wantLimit):
		return errors.As(err, &limit) && *limit == *wantLimit && errors.Is(err, ledger.ErrUnsettledLimit)
	default:
		return errors.Is(err, want)
	}
}

// won ends the check unless n of the errors are nil and the others match want.
func (p *probe) won(errs []error, n int, want error) {
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		p.must(matches(err, want), "got error %v, want %v", err, want)
	}
	p.must(won == n, "%d of %d racing calls succeeded, want %d", won, len(errs), n)
}

// same reports whether two results are equal. An empty slice equals nil.
func same(a, b any) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	if x.Kind() == reflect.Slice && y.Kind() == reflect.Slice && x.Len() == 0 && y.Len() == 0 {
		return x.Type() == y.Type()
	}
	return reflect.DeepEqual(a, b)
}

// text returns the text of an error.
func text(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}

// agree compares a result with the model's.
func agree(what string, got, want any, err, wantErr error) error {
	switch {
	case !matches(err, wantErr):
		return fmt.Errorf("%s: got error %q, want %q", what, text(err), text(wantErr))
	case wantErr == nil && !same(got, want):
		return fmt.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
	return nil
}

// equal ends the check unless got and want are equal.
func (p *probe) equal(got, want any, format string, a ...any) {
	if !same(got, want) {
		p.fail("%s:\n got %+v\nwant %+v", fmt.Sprintf(format, a...), got, want)
	}
}

// open returns another handle.
func (p *probe) open() whole.Database {
	s, err := p.h.Open()
	p.ok(err, "open")
	return s
}

// reopen closes all handles and opens a new one.
func (p *probe) reopen() {
	p.ok(p.h.Close(), "close")
	p.store = p.open()
}

// race calls fn n times concurrently and returns the errors.
func race(n int, fn func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = fn(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

const mib = 1 << 20

// content returns a new content id.
func (p *probe) content() metastore.ContentID { return metastore.NewContentID(p.clock.Now()) }

// key returns a new object key.
func (p *probe) key() string {
	p.keys++
	return fmt.Sprintf("%02x-key-%d", p.keys%256, p.keys)
}

// extent returns an extent with a new key.
func (p *probe) extent(part int, off, size int64) metastore.Extent {
	e := metastore.Extent{Part: part, Offset: off, Size: size, Key: p.key(), Created: p.clock.Now()}
	for at := int64(0); at < size; at += mib {
		e.Blocks = append(e.Blocks, uint32(off+at)*2654435761+uint32(part))
	}
	return e
}

// extents returns the extents of a part of this size.
func (p *probe) extents(part int, size int64) []metastore.Extent {
	var list []metastore.Extent
	for off := int64(0); off < size; off += metastore.MaxExtentSize {
		list = append(list, p.extent(part, off, min(metastore.MaxExtentSize, size-off)))
	}
	return list
}

// inline returns an inline extent.
func (p *probe) inline(part int, off int64, body []byte) metastore.Extent {
	return metastore.Extent{Part: part, Offset: off, Size: int64(len(body)), Blocks: []uint32{uint32(len(body))}, Body: body}
}

// put commits a blob of one extent, and returns it as stored.
func (p *probe) put(account, name string) (metastore.Blob, metastore.Extent) {
	e := p.extent(0, 0, 100)
	b, err := p.store.CommitBlob(p.ctx, metastore.Blob{Account: account, Name: name, Content: p.content(), Size: 100, CRC64: 7},
		[]metastore.Extent{e}, nil)
	p.ok(err, "commit of %q", name)
	return b, e
}

// stored returns the extents as the method Extents returns them.
func stored(extents ...metastore.Extent) []metastore.Extent {
	list := make([]metastore.Extent, len(extents))
	for i, e := range extents {
		list[i] = e
		list[i].Created = metastore.Extent{}.Created
	}
	return list
}

// allExtents returns all extents of a content.
func (p *probe) allExtents(id metastore.ContentID) []metastore.Extent {
	list, err := p.store.Extents(p.ctx, id, metastore.Position{}, 1_000_000)
	p.ok(err, "extents of %v", id)
	return list
}

// garbage returns the contents that are garbage, sorted by id.
func (p *probe) garbage() []metastore.ContentID {
	list, err := p.store.GarbageContents(p.ctx, 0, metastore.GarbageContent{}, 1_000_000)
	p.ok(err, "garbage")
	ids := make([]metastore.ContentID, len(list))
	for i, g := range list {
		ids[i] = g.Content
	}
	slices.SortFunc(ids, func(a, b metastore.ContentID) int { return bytes.Compare(a[:], b[:]) })
	return ids
}

// isGarbage reports whether a content is garbage.
func (p *probe) isGarbage(id metastore.ContentID) bool {
	for _, g := range p.garbage() {
		if g == id {
			return true
		}
	}
	return false
}

// begin begins an upload with this id.
func (p *probe) begin(id, account, name string) metastore.Upload {
	u, err := p.store.BeginUpload(p.ctx, metastore.Upload{ID: id, Account: account, Name: name, Content: p.content(), PartSize: 100})
	p.ok(err, "begin")
	return u
}

// part stores a part of one extent, and returns the extent.
func (p *probe) part(id string, index int, size int64) metastore.Extent {
	e := p.extent(index, 0, size)
	p.ok(p.store.PutPart(p.ctx, id, metastore.Part{Index: index, Size: size, CRC64: uint64(size)}, []metastore.Extent{e}), "part %d", index)
	return e
}

// upload returns an upload.
func (p *probe) upload(id string) metastore.Upload {
	u, err := p.store.Upload(p.ctx, id)
	p.ok(err, "upload")
	return u
}

// complete completes an upload at its present revision.
func (p *probe) complete(id string) metastore.Upload {
	u := p.upload(id)
	u, err := p.store.CompleteUpload(p.ctx, id, u.Revision, u.Bytes, 42, nil)
	p.ok(err, "complete")
	return u
}

// purge calls Purge until nothing is left to do, and returns the number of rows handled.
func (p *probe) purge() int {
	total := 0
	for {
		n, err := p.store.Purge(p.ctx, 100)
		p.ok(err, "purge")
		if n == 0 {
			return total
		}
		total += n
	}
}
