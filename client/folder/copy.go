package folder

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/client"
	"sluice/wire"
)

// Copy adds the blobs below a prefix, which are copied with their properties to another prefix,
// even of another service. If both have the same Client, the service copies, as far as it permits
// that. Otherwise the bytes pass through this process and are compared with the source's ETag
// before a blob is visible. Copy lists both sides, and reports blobs that are the same already. It
// returns ErrEmpty if there are none.
func (b *Batch) Copy(ctx context.Context, from, to Prefix) error {
	source, err := list(ctx, from, b.o.Filter)
	if err != nil {
		return err
	}
	if len(source) == 0 && b.o.Filter == nil {
		return ErrEmpty
	}
	stored, err := list(ctx, to, b.o.Filter)
	if err != nil {
		return err
	}
	b.addCopies(ctx, from, to, source, stored)
	return nil
}

// CopyBlob adds a single blob or version, as it was listed with its metadata. It is copied in any
// case.
func (b *Batch) CopyBlob(from Item, blob client.Blob, to Item) {
	b.addCopy(&duplicate{from: from, blob: blob, to: to, options: b.copyOptions(&blob)})
}

// addCopies adds the blobs that the target does not have. Blobs without an ETag, as small ones that
// must be paid for, are copied again.
func (b *Batch) addCopies(ctx context.Context, from, to Prefix, source, stored map[string]client.Blob) {
	for _, name := range slices.Sorted(maps.Keys(source)) {
		blob := source[name]
		d := &duplicate{from: from.item(name), blob: blob, to: to.item(name), options: b.copyOptions(&blob)}
		has, exists := stored[name]
		if !exists || blob.ETag == "" || has.ETag != blob.ETag || has.Size != blob.Size || !b.o.ContentOnly && !sameProperties(&d.options, &has) {
			b.addCopy(d)
			continue
		}
		if !b.o.DryRun {
			d.forget(ctx, b.o.StateDir)
		}
		b.plan(1)
		b.conclude(&job{source: d.from, target: d.to}, Event{Kind: Unchanged, Size: has.Size, ETag: has.ETag})
	}
}

// copyOptions returns the options with which a copy is stored: the blob's properties, unless
// Options.Put overrides them.
func (b *Batch) copyOptions(blob *client.Blob) client.PutOptions {
	o := b.o.Put
	if o.Expires.IsZero() {
		o.Expires = blob.Expires
	}
	o.ContentType = cmp.Or(o.ContentType, blob.ContentType)
	o.CacheControl = cmp.Or(o.CacheControl, blob.CacheControl)
	o.ContentDisposition = cmp.Or(o.ContentDisposition, blob.ContentDisposition)
	o.ContentLanguage = cmp.Or(o.ContentLanguage, blob.ContentLanguage)
	if o.Metadata == nil {
		o.Metadata = blob.Metadata
	}
	return o
}

// addCopy adds the job that copies a blob.
func (b *Batch) addCopy(d *duplicate) {
	run := func(ctx context.Context, progress func(done, total int64)) (outcome, error) {
		if b.o.DryRun {
			return outcome{size: d.blob.Size}, nil
		}
		return d.run(ctx, b.o.Get.GetOptions, b.o.StateDir, progress)
	}
	b.transfers = append(b.transfers, job{source: d.from, target: d.to, size: d.blob.Size, run: run})
}

// duplicate copies a blob. Unless the service can do that, its bytes pass through this process;
// they are verified, and the ETags compared.
type duplicate struct {
	from, to Item
	blob     client.Blob
	options  client.PutOptions
}

func (d *duplicate) run(ctx context.Context, get client.GetOptions, stateDir string, progress func(done, total int64)) (outcome, error) {
	if copied, possible, err := d.copyWithin(ctx); possible {
		if err != nil {
			return outcome{}, err
		}
		progress(copied.Size, copied.Size)
		d.forget(ctx, stateDir)
		return outcome{size: copied.Size, etag: copied.ETag}, nil
	}
	get.Version = d.from.Version
	source, err := d.from.Client.OpenBlob(ctx, d.from.Account, d.blob, get)
	if err != nil {
		return outcome{}, err
	}
	o := d.options
	o.StateFile, o.Size, o.Progress = "", 0, progress
	if d.blob.Size > cmp.Or(o.PartSize, client.DefaultPartSize) && stateDir != "" && os.MkdirAll(stateDir, 0o700) == nil {
		o.StateFile = d.stateFile(stateDir)
	}
	stored, err := d.to.Client.PutObject(ctx, d.to.Account, d.to.Name, source, o)
	return outcome{size: stored.Size, etag: stored.ETag}, errors.Join(err, source.Close())
}

// copyWithin lets the service copy a blob that stays in it. It returns false if the service, or the
// key, can copy it only through this process: an earlier version cannot copy, and there is no
// paying for a copy.
func (d *duplicate) copyWithin(ctx context.Context) (copied client.Blob, possible bool, err error) {
	if d.from.Client != d.to.Client {
		return client.Blob{}, false, nil
	}
	o := &d.options
	conditional := client.TargetConditions{IfAbsent: o.IfAbsent, IfMatch: o.IfMatch}
	copied, err = d.from.Client.Copy(ctx, d.from.blobName(), d.to.blobName(), client.CopyOptions{
		IfMatch: d.blob.ETag, Version: d.from.Version, Target: conditional, Expires: o.Expires, Replace: true, ContentType: o.ContentType, CacheControl: o.CacheControl,
		ContentDisposition: o.ContentDisposition, ContentLanguage: o.ContentLanguage, Metadata: o.Metadata, Lock: o.Lock,
	})
	if e, reported := errors.AsType[*client.Error](err); reported {
		switch {
		case cannotWithin(e):
			return client.Blob{}, false, nil
		case e.Code == wire.CodePreconditionFailed && conditional == client.TargetConditions{}:
			err = fmt.Errorf("%w: %w", client.ErrChanged, err)
		}
	}
	return copied, true, err
}

// cannotWithin reports whether a service or a key cannot copy and move within the service.
func cannotWithin(e *client.Error) bool {
	return e.Status == http.StatusMethodNotAllowed || e.Code == wire.CodeScopeMissing || e.Code == wire.CodeAccountForbidden || e.Code == wire.CodeNameForbidden
}

// stateFile returns the file that remembers an interrupted copy. It is in a folder of its own,
// because there is no local file beside which it could be.
func (d *duplicate) stateFile(dir string) string {
	ends := strings.Join([]string{d.from.Client.URL(), d.from.Account, d.from.Name + d.from.Version, d.to.Client.URL(), d.to.Account, d.to.Name}, "\x00")
	return filepath.Join(dir, fmt.Sprintf("%x.json", sha256.Sum256([]byte(ends))))
}

// forget removes an interrupted copy's upload and state file, which are not needed any more. An
// error, such as a missing folder, is ignored: a state file that remains has no effect.
func (d *duplicate) forget(ctx context.Context, stateDir string) {
	if stateDir != "" {
		_ = d.to.Client.ForgetUpload(ctx, d.to.Account, d.to.Name, "", client.PutOptions{StateFile: d.stateFile(stateDir)})
	}
}
