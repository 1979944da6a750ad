package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
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
	return job{source: from.String(), target: to.String(), size: b.Size, ifInterrupted: "run the same command again to copy the rest", run: func(ctx context.Context, t *terminal.Transfer) (done, error) {
		if dryRun {
			return done{size: b.Size}, nil
		}
		reads := c.reads.options()
		reads.IfMatch = b.ETag
		r, err := c.from.Get(ctx, from.Account, from.Name, reads)
		if err != nil {
			return done{}, c.reads.explain(err)
		}
		o.Size = b.Size
		o.Progress = func(n, _ int64) { t.Set(n) }
		stored, err := c.to.Put(ctx, to.Account, to.Name, r, o)
		return done{size: stored.Size, etag: stored.ETag}, errors.Join(c.reads.explain(err), r.Close())
	}}
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
	return c.jobs(b, from, to, source, target)
}

// jobs returns the jobs that make the blobs below to those below from. Blobs without an ETag, as small ones
// that must be paid for, are copied again.
func (c *copier) jobs(b *batch, from, to operand.Remote, source, target map[string]client.Blob) (jobs []job, err error) {
	for _, name := range slices.Sorted(maps.Keys(source)) {
		blob := source[name]
		o, err := c.options(blob)
		if err != nil {
			return nil, err
		}
		if has, exists := target[name]; exists && blob.ETag != "" && has.ETag == blob.ETag && has.Size == blob.Size && (c.contentOnly || sameProperties(&o, &has)) {
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
