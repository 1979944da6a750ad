package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sluice/client"
	"sluice/internal/operand"
	"sluice/internal/terminal"
)

// copier copies blobs between servers, or to other names of one.
type copier struct {
	from, to *client.Client
	reads    *paidReads
	flags    *writeFlags

	contentOnly bool // blobs with the same content are the same, whatever their properties
}

// job returns the job that copies a blob with its properties, except those that the flags set. The
// bytes pass through this process; they are verified, and the ETags compared.
func (c *copier) job(dryRun bool, from, to operand.Remote, b client.Blob, o client.PutOptions) job {
	return job{source: from.String(), target: to.String(), size: b.Size, ifInterrupted: resumable, run: func(ctx context.Context, t *terminal.Transfer) (done, error) {
		if dryRun {
			return done{size: b.Size}, nil
		}
		source, err := c.from.OpenBlob(ctx, from.Account, b, c.reads.options())
		if err != nil {
			return done{}, err
		}
		o.Progress = func(n, _ int64) { t.Set(n) }
		if file := c.stateFile(from, to); b.Size > cmp.Or(o.PartSize, client.DefaultPartSize) && file != "" && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
			o.StateFile = file
		}
		stored, err := c.to.PutObject(ctx, to.Account, to.Name, source, o)
		return done{size: stored.Size, etag: stored.ETag}, errors.Join(c.reads.explain(err), source.Close())
	}}
}

// stateFile returns the file that remembers an interrupted copy: it is in the user's folder for caches, as
// there is no local file beside which it could be. It returns "" if there is no such folder: then a copy
// cannot be resumed.
func (c *copier) stateFile(from, to operand.Remote) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	ends := strings.Join([]string{c.from.URL(), from.Account, from.Name, c.to.URL(), to.Account, to.Name}, "\x00")
	return filepath.Join(cache, "sluice", "copies", fmt.Sprintf("%x.json", sha256.Sum256([]byte(ends))))
}

// forget removes what an interrupted copy of a blob that is the same by now has left. An error, such as that
// of a folder that does not exist, is ignored: what remains is in a cache, and has no effect.
func (c *copier) forget(ctx context.Context, from, to operand.Remote) {
	if file := c.stateFile(from, to); file != "" {
		_ = c.to.ForgetUpload(ctx, to.Account, to.Name, "", client.PutOptions{StateFile: file})
	}
}

// options returns the options with which a copy of a blob is stored: its properties, and those that
// the flags set.
func (c *copier) options(b client.Blob) (client.PutOptions, error) {
	o, err := c.flags.options()
	if o.Expires.IsZero() {
		o.Expires = b.Expires
	}
	o.ContentType = cmp.Or(o.ContentType, b.ContentType)
	o.CacheControl = cmp.Or(o.CacheControl, b.CacheControl)
	o.ContentDisposition = cmp.Or(o.ContentDisposition, b.ContentDisposition)
	o.ContentLanguage = cmp.Or(o.ContentLanguage, b.ContentLanguage)
	if o.Metadata == nil {
		o.Metadata = b.Metadata
	}
	return o, err
}

// add runs the jobs that copy blobs, or with recursive those below prefixes. Of several, those that do not
// exist fail by themselves.
func (c *copier) add(ctx context.Context, b *batch, sources []operand.Remote, to operand.Remote, recursive bool) error {
	several := len(sources) > 1
	if several {
		if err := checkPrefix(to); err != nil {
			return err
		}
		if err := checkKeptNames(sources, to); err != nil {
			return err
		}
	}
	var jobs []job
	for _, from := range sources {
		target := to
		if several || !recursive && to.Folder() {
			target = below(asFolder(to), keptName(from))
		}
		var more []job
		var err error
		switch {
		case recursive:
			more, err = c.tree(ctx, b, asFolder(from), asFolder(target))
		case from.Folder():
			err = usagef("%s is not a blob: use -r to copy all blobs below it", terminal.Name(from.String()))
		default:
			more, err = c.blob(ctx, b, from, target)
		}
		if e, known := errors.AsType[*exitError](err); several && known {
			more, err = []job{failure(from.String(), exitWith(e.code, err))}, nil
		}
		if err != nil {
			return err
		}
		jobs = append(jobs, more...)
	}
	b.run(ctx, jobs)
	return nil
}

// checkKeptNames returns an error unless each of several blobs or prefixes has a name of its own.
func checkKeptNames(sources []operand.Remote, to operand.Remote) error {
	seen := map[string]operand.Remote{}
	for _, from := range sources {
		name := keptName(from)
		if other, exists := seen[name]; exists {
			return bothWouldBe(other.String(), from.String(), below(asFolder(to), name))
		}
		seen[name] = from
	}
	return nil
}

// blob returns the job that copies a blob.
func (c *copier) blob(ctx context.Context, b *batch, from, to operand.Remote) ([]job, error) {
	found, err := listed(ctx, c.from, from)
	switch {
	case err != nil:
		return nil, blobError(from, err)
	case found == nil:
		return nil, blobError(from, exitWith(exitNotFound, errors.New("the blob does not exist")))
	}
	o, err := c.options(*found)
	return []job{c.job(b.dryRun, from, to, *found, o)}, err
}

// tree returns the jobs that copy the blobs below a prefix that are not below the other with the same
// content and properties.
func (c *copier) tree(ctx context.Context, b *batch, from, to operand.Remote) ([]job, error) {
	source, err := listBelow(ctx, c.from, from)
	if err != nil {
		return nil, err
	}
	if len(source) == 0 {
		return nil, nothingBelow(from)
	}
	target, err := listBelow(ctx, c.to, to)
	if err != nil {
		return nil, err
	}
	return c.jobs(ctx, b, from, to, source, target)
}

// jobs returns the jobs that make the blobs below to those below from. Blobs without an ETag, as small ones
// that must be paid for, are copied again.
func (c *copier) jobs(ctx context.Context, b *batch, from, to operand.Remote, source, target map[string]client.Blob) (jobs []job, err error) {
	for _, name := range slices.Sorted(maps.Keys(source)) {
		blob := source[name]
		o, err := c.options(blob)
		if err != nil {
			return nil, err
		}
		if has, exists := target[name]; exists && blob.ETag != "" && has.ETag == blob.ETag && has.Size == blob.Size && (c.contentOnly || sameProperties(&o, &has)) {
			if !b.dryRun {
				c.forget(ctx, below(from, name), below(to, name))
			}
			b.same(below(from, name).String(), below(to, name).String(), has.Size, has.ETag)
			continue
		}
		jobs = append(jobs, c.job(b.dryRun, below(from, name), below(to, name), blob, o))
	}
	return jobs, nil
}

// listBelow returns the blobs below a prefix by their names relative to it.
func listBelow(ctx context.Context, from *client.Client, prefix operand.Remote) (map[string]client.Blob, error) {
	blobs := map[string]client.Blob{}
	for e, err := range from.List(ctx, prefix.Account, client.ListOptions{Prefix: prefix.Name, Metadata: true}) {
		if err != nil {
			return nil, blobError(prefix, err)
		}
		blobs[strings.TrimPrefix(e.Name, prefix.Name)] = e.Blob
	}
	return blobs, nil
}
