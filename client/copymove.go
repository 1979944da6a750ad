package client

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"sluice/wire"
)

// BlobName names a blob.
type BlobName struct{ Account, Name string }

// TargetConditions are conditions on the blob that a copy or a move replaces. If one does not hold,
// the error is ErrPreconditionFailed.
type TargetConditions struct {
	IfAbsent bool   // there must be no such blob
	IfMatch  string // it must have this ETag
}

// CopyOptions are the options of Copy.
type CopyOptions struct {
	IfMatch string           // copies only a blob with this ETag; ErrPreconditionFailed otherwise
	Version string           // a version's id; "": the current one
	Target  TargetConditions // if the copy's own effect may have made one false: ErrOutcomeUnknown
	Expires time.Time        // when the copy expires; zero: never
	Lock    Lock             // the copy's, as in PutOptions

	// Replace sets the copy's fields from those below instead of the source's.
	Replace            bool
	ContentType        string // "" means application/octet-stream
	CacheControl       string
	ContentDisposition string
	ContentLanguage    string
	Metadata           map[string]string // custom headers without "Blob-Meta-"
}

// Copy makes a blob's bytes readable under another name in the same service, and returns the
// copy. The service transfers no bytes, whatever their number. The copy replaces a blob of that
// name, and is independent of its source from then on. A copy onto the source changes its expiry
// and, with Replace, its metadata. A copy of a version onto its own name makes it current again, as
// a new version.
//
// Copy returns ErrNotFound if there is no source, and ErrGone if it has expired. It needs a key
// that may write to the target's account and may read the source without payment. PutObject copies
// between services.
func (c *Client) Copy(ctx context.Context, from, to BlobName, o CopyOptions) (Blob, error) {
	body := wire.CopyBlob{CopyTo: &wire.BlobName{Account: &to.Account, BlobName: &to.Name}, Lock: o.Lock.wire()}
	if !o.Expires.IsZero() {
		expires := o.Expires.UTC().Format(time.RFC3339Nano)
		body.Expires = &expires
	}
	if o.Replace {
		body.ReplaceMetadata, body.ContentType, body.CacheControl = &o.Replace, &o.ContentType, &o.CacheControl
		body.ContentDisposition, body.ContentLanguage, body.Metadata = &o.ContentDisposition, &o.ContentLanguage, o.Metadata
	}
	r, err := newTransfer("copy a blob", from, o.Version, to, o.IfMatch)
	if err != nil {
		return Blob{}, err
	}
	r.conditional = o.Target != TargetConditions{}
	return c.transfer(ctx, r, to, body, o.Target)
}

// MoveOptions are the options of Move.
type MoveOptions struct {
	IfMatch        string           // moves only the version with this ETag; ErrPreconditionFailed otherwise
	Target         TargetConditions // on the blob that is replaced
	IdempotencyKey string           // as in CreateSessionOptions
}

// Move moves a blob to another name in its service, and returns the moved blob. A reader finds it
// under exactly one name at any time. The blob keeps its content type, its metadata and
// its expiry, and replaces any blob that has the new name. Move repeats the request until its
// outcome is known, and moves only once; after a repeated request the result may lack the content
// type and the metadata.
//
// Move returns ErrNotFound if there is no such blob, and ErrGone if it has expired. It needs a key
// that may write to both accounts.
func (c *Client) Move(ctx context.Context, from, to BlobName, o MoveOptions) (Blob, error) {
	r, err := newTransfer("move a blob", from, "", to, o.IfMatch)
	if err != nil {
		return Blob{}, err
	}
	setIdempotencyKey(r, o.IdempotencyKey)
	return c.transfer(ctx, r, to, wire.CopyBlob{MoveTo: &wire.BlobName{Account: &to.Account, BlobName: &to.Name}}, o.Target)
}

// newTransfer returns a request to copy or to move a blob, without its body.
func newTransfer(name string, from BlobName, version string, to BlobName, ifMatch string) (*request, error) {
	path, err := versionPath(from.Account, from.Name, version)
	if err != nil {
		return nil, err
	}
	if _, err := blobPath(to.Account, to.Name); err != nil {
		return nil, err
	}
	r := newRequest(name, http.MethodPost, path, idempotent)
	if ifMatch != "" {
		r.header.Set("If-Match", ifMatch)
	}
	return r, nil
}

// transfer sends a request to copy or to move a blob, and returns the blob that it makes.
func (c *Client) transfer(ctx context.Context, r *request, to BlobName, body wire.CopyBlob, target TargetConditions) (Blob, error) {
	if target.IfAbsent {
		body.IfNoneMatch = new("*")
	}
	if target.IfMatch != "" {
		body.IfMatch = &target.IfMatch
	}
	if err := r.setJSON(body); err != nil {
		return Blob{}, err
	}
	var made wire.CopiedBlob
	var b Blob
	r.check = func() error {
		b = blobOf(&made.Blob)
		if b.Name != to.Name {
			return invalid("name", "is %s, and %s was requested", shown(b.Name), shown(to.Name))
		}
		return cmp.Or(checkWord("account", made.Account, maxWord), b.check())
	}
	h, err := c.call(ctx, r, &made)
	if err != nil {
		return Blob{}, err
	}
	if b.Version = h.Get(wire.HeaderBlobVersion); checkVersion(b.Version) != nil {
		return Blob{}, r.failed(checkVersion(b.Version))
	}
	return b, nil
}
