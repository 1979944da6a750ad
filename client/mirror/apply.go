package mirror

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"time"

	"sluice/client"
)

// account returns an account's counterpart in the target.
func (m *Mirror) account(source string) string { return cmp.Or(m.o.To.Account, source) }

// equal reports whether a blob in the target is as the source's.
func equal(from, to *client.Blob) bool {
	return from.ETag == to.ETag && from.ContentType == to.ContentType && from.CacheControl == to.CacheControl && from.ContentDisposition == to.ContentDisposition &&
		from.ContentLanguage == to.ContentLanguage && maps.Equal(from.Metadata, to.Metadata) && from.Expires.Equal(to.Expires)
}

// find returns a blob with its metadata, or nil if there is none.
func find(ctx context.Context, c *client.Client, account, name string) (*client.Blob, error) {
	for e, err := range c.List(ctx, account, client.ListOptions{Prefix: name, PageSize: 1, Metadata: true}) {
		if err != nil || e.Name != name {
			return nil, err
		}
		return &e.Blob, nil
	}
	return nil, nil
}

// mirror makes the target's blob equal to the source's. If one of them changes meanwhile, it lists
// both again.
func (m *Mirror) mirror(ctx context.Context, i *item) (err error) {
	from, to, listed := i.from, i.to, i.listed
	for range attempts {
		if !listed {
			to, err = find(ctx, m.o.To.Client, m.account(i.account), m.o.To.Prefix+i.name)
			if err == nil {
				from, err = find(ctx, m.o.From.Client, i.account, m.o.From.Prefix+i.name)
			}
		}
		if err == nil {
			err = m.apply(ctx, i, from, to)
		}
		if listed = false; from != nil && !from.Expires.IsZero() && from.Expires.Before(time.Now()) && errors.Is(err, client.ErrInvalid) {
			i.kind = "expired" // meanwhile
		} else if !changed(err) {
			break
		}
	}
	return err
}

// changed reports whether an error is due to a change of the blob, or of the one that it replaces.
func changed(err error) bool {
	return anyOf(err, client.ErrChanged, client.ErrPreconditionFailed, client.ErrNotFound, client.ErrGone, client.ErrOutcomeUnknown)
}

// apply makes a blob in the target equal to from, if it still is to.
func (m *Mirror) apply(ctx context.Context, i *item, from, to *client.Blob) (err error) {
	e, more := Event{Kind: "copied", Account: m.account(i.account), Name: m.o.To.Prefix + i.name}, int64(0)
	switch {
	case from == nil && to == nil, from != nil && to != nil && equal(from, to):
		return nil
	case from == nil:
		e.Kind, e.Size, more = "deleted", to.Size, -1
		if err = m.permit(i, to); err == nil {
			err = m.o.To.Client.Delete(ctx, e.Account, e.Name, client.DeleteOptions{IfMatch: to.ETag})
		}
	case from.ETag == "":
		return errNoETag
	default:
		if e.Size = from.Size; to == nil {
			more = 1
		}
		err = m.write(ctx, i, from, to, &e)
	}
	if err == nil {
		m.note(func() { m.state.Blobs += more })
		m.tell(e)
	}
	return err
}

// write copies a blob, or only its properties if the target has the content.
func (m *Mirror) write(ctx context.Context, i *item, from, to *client.Blob, e *Event) error {
	o := client.PutOptions{ContentType: from.ContentType, Expires: from.Expires, CacheControl: from.CacheControl, ContentDisposition: from.ContentDisposition,
		ContentLanguage: from.ContentLanguage, Metadata: from.Metadata, IfAbsent: to == nil}
	if to != nil {
		o.IfMatch = to.ETag
	}
	if o.IfMatch == from.ETag {
		at := client.BlobName{Account: e.Account, Name: e.Name}
		_, err := m.o.To.Client.Copy(ctx, at, at, client.CopyOptions{IfMatch: to.ETag, Target: client.TargetConditions{IfMatch: to.ETag}, Expires: o.Expires, Replace: true,
			ContentType: o.ContentType, CacheControl: o.CacheControl, ContentDisposition: o.ContentDisposition, ContentLanguage: o.ContentLanguage, Metadata: o.Metadata})
		refused, _ := errors.AsType[*client.Error](err)
		if refused == nil || refused.Status != http.StatusForbidden && refused.Status != http.StatusMethodNotAllowed {
			e.Kind, e.Size = "updated", 0
			return err
		} // the key may not read there, or the service cannot copy
	}
	if from.Size > largeSize {
		wait := i.waits
		m.note(func() { wait = wait || len(m.state.Late) > mostLate/10 })
		if !wait {
			return errLarge
		}
		select {
		case m.large <- struct{}{}:
			defer func() { <-m.large }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	o.StateFile = filepath.Join(m.o.StateDir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(e.Account+"/"+e.Name))))
	source, err := m.o.From.Client.OpenBlob(ctx, i.account, *from, client.GetOptions{})
	if err != nil {
		return err
	}
	_, err = m.o.To.Client.PutObject(ctx, e.Account, e.Name, source, o)
	return errors.Join(err, source.Close())
}

// concernsAll reports whether each name would have the same error as this one. If it may, it asks
// the services.
func (m *Mirror) concernsAll(ctx context.Context, err error) bool {
	refused, _ := errors.AsType[*client.Error](err)
	if ctx.Err() != nil || stops(err) || errors.Is(err, client.ErrRateLimited) {
		return true
	}
	if changed(err) || anyOf(err, client.ErrCorrupt, client.ErrInvalid) || refused != nil && refused.Status < http.StatusInternalServerError {
		return false
	}
	_, from := find(ctx, m.o.From.Client, cmp.Or(m.o.From.Account, "0x1"), m.o.From.Prefix)
	_, to := find(ctx, m.o.To.Client, cmp.Or(m.o.To.Account, "0x1"), m.o.To.Prefix)
	return from != nil || to != nil
}
