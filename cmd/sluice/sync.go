package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"sluice/client"
	"sluice/client/folder/tree"
	"sluice/internal/operand"
	"sluice/internal/terminal"
)

// syncCommand makes a folder or a prefix like another.
type syncCommand struct {
	Source localOrRemote `arg:"" name:"source" help:"Folder, or CONTEXT:ACCOUNT/PREFIX/; :ACCOUNT/PREFIX/ on the current server."`
	Target localOrRemote `arg:"" name:"target" help:"The same."`

	Delete bool `env:"-" help:"Delete from the target what the source does not have."`
	DryRun bool `short:"n" env:"-" help:"Print what would be done, and do nothing."`
	Force  bool `env:"-" help:"Delete also if the source is empty, or if some of it could not be listed or copied."`

	serverFlags
	outputFlags
	writeFlags
	readFlags
}

// Help returns examples.
func (*syncCommand) Help() string {
	return "Files and blobs are the same if their sizes and ETags are. Without --delete nothing is removed.\n\n" +
		examples("sluice sync ./site :team/site/", "sluice sync --delete --dry-run ./site prod:team/site/", "sluice sync prod:team/ test:team/")
}

// Run copies what differs, and then deletes.
func (c *syncCommand) Run(ctx context.Context, console *console) error {
	source, target := c.Source.Operand, c.Target.Operand
	switch {
	case source.Remote == nil && target.Remote == nil:
		return bothLocal(source, target)
	case source.IsStdio() || target.IsStdio():
		return usagef("sync has no - as operand: want a folder and CONTEXT:ACCOUNT/PREFIX/")
	case target.Remote == nil && c.set():
		return errStoresNothing
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	from, to, err := clientsOf(console, &c.serverFlags, source, target)
	if err != nil {
		return err
	}
	reads, err := c.reads(ctx, console, from)
	if err != nil {
		return err
	}
	b := newBatch(console, c.outputFlags)
	b.dryRun, b.reads = c.DryRun, reads
	s := &synchronization{syncCommand: c, batch: b, from: from, to: to}
	switch {
	case from == nil:
		err = s.upload(ctx, source.Path, asFolder(*target.Remote), options)
	case to == nil:
		err = s.download(ctx, asFolder(*source.Remote), target.Path)
	default:
		err = s.copy(ctx, asFolder(*source.Remote), asFolder(*target.Remote))
	}
	return b.end(ctx, err)
}

// synchronization is a run of the command.
type synchronization struct {
	*syncCommand
	batch    *batch
	from, to *client.Client // nil: local
}

// upload makes the blobs below a prefix like the files of a folder.
func (s *synchronization) upload(ctx context.Context, dir string, to operand.Remote, o client.PutOptions) (err error) {
	root, err := openSource(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	files, skipped, incomplete := tree.List(root, client.IsTemporary)
	stored, err := listBelow(ctx, s.to, to)
	if err != nil {
		return err
	}
	u := &uploader{to: s.to, options: o, stored: map[string]client.Blob{}, contentOnly: true}
	for name, b := range stored {
		u.stored[to.Name+name] = b
	}
	s.batch.run(ctx, u.jobs(s.batch, dir, files, skipped, to))
	for _, f := range files {
		delete(stored, f.Name)
	}
	var jobs []job
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if !isSkipped(name, skipped) {
			jobs = append(jobs, deletion(s.to, below(to, name), false))
		}
	}
	return s.delete(ctx, jobs, len(files) == 0, incomplete)
}

// openSource opens a local folder that is read.
func openSource(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return nil, usagef("there is no folder %s", terminal.Name(dir))
	}
	return os.OpenRoot(dir)
}

// isSkipped reports whether a name is that of something that was skipped, or below it. It is not known
// whether the source has it.
func isSkipped(name string, skipped []tree.Skipped) bool {
	return slices.ContainsFunc(skipped, func(s tree.Skipped) bool { return name == s.Name || strings.HasPrefix(name, s.Name+"/") })
}

// download makes the files of a folder like the blobs below a prefix.
func (s *synchronization) download(ctx context.Context, from operand.Remote, dir string) (err error) {
	if !s.DryRun {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	root, err := openSource(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	d := &downloader{from: s.from, reads: s.batch.reads}
	var names tree.Names
	jobs, err := d.jobs(ctx, s.batch, from, root, "", &names)
	if err != nil {
		return err
	}
	files, _, incomplete := tree.List(root, client.IsTemporary)
	s.batch.run(ctx, jobs)
	var deletions []job
	for _, f := range files {
		if !names.Has(f.Name) {
			deletions = append(deletions, s.removal(root, dir, f.Name))
		}
	}
	return s.delete(ctx, deletions, len(jobs) == 0, incomplete)
}

// copy makes the blobs below a prefix like those below another.
func (s *synchronization) copy(ctx context.Context, from, to operand.Remote) error {
	source, err := listBelow(ctx, s.from, from)
	if err != nil {
		return err
	}
	target, err := listBelow(ctx, s.to, to)
	if err != nil {
		return err
	}
	c := &copier{from: s.from, to: s.to, reads: s.batch.reads, flags: &s.writeFlags, contentOnly: true}
	jobs, err := c.jobs(ctx, s.batch, from, to, source, target)
	if err != nil {
		return err
	}
	s.batch.run(ctx, jobs)
	var deletions []job
	for _, name := range slices.Sorted(maps.Keys(target)) {
		if _, exists := source[name]; !exists {
			deletions = append(deletions, deletion(s.to, below(to, name), false))
		}
	}
	return s.delete(ctx, deletions, len(source) == 0, nil)
}

// removal returns the job that removes a local file.
func (s *synchronization) removal(root *os.Root, dir, name string) job {
	return job{source: localPath(dir, name), verb: verbDelete, ifInterrupted: partlyDeleted, run: func(context.Context, *terminal.Transfer) (done, error) {
		return done{}, tree.Remove(root, localPath("", name))
	}}
}

// delete runs deletions, if they are wanted and safe: a source that is empty, or of which some could
// not be listed or copied, may have what seems to be missing.
func (s *synchronization) delete(ctx context.Context, jobs []job, empty bool, incomplete error) error {
	b := s.batch
	failed := b.jobs - b.copied - b.unchanged
	switch {
	case ctx.Err() != nil:
	case !s.Delete || len(jobs) == 0:
	case s.Force:
		b.run(ctx, jobs)
	case empty:
		return exitWith(exitRefused, fmt.Errorf("the source is empty, so the %d of the target were not deleted: use --force to delete them", len(jobs)))
	case incomplete != nil || failed > 0:
		b.print("nothing was deleted, because some of the source could not be listed or copied: use --force to delete nevertheless")
	default:
		b.run(ctx, jobs)
	}
	if incomplete != nil {
		return exitWith(exitPartly, fmt.Errorf("some folders could not be read: %w", incomplete))
	}
	return nil
}
