package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/instance"
	"sluice/internal/terminal"
)

// cloneCommand copies an instance that is not being served to an empty place.
type cloneCommand struct {
	From      string `placeholder:"DIR" help:"Data folder of the instance."`
	FromMeta  string `placeholder:"DSN" help:"Database of its metadata, if not in that folder, such as postgres://HOST/NAME."`
	FromBytes string `placeholder:"DSN" help:"Object store of its bytes, if not in that folder, such as s3://BUCKET/PREFIX?endpoint=https://HOST."`
	To        string `placeholder:"DIR" help:"Data folder to create."`
	ToMeta    string `placeholder:"DSN" help:"Database for the metadata, if not in that folder."`
	ToBytes   string `placeholder:"DSN" help:"Object store for the bytes, if not in that folder."`

	outputFlags
}

func (c *cloneCommand) source() instance.Location {
	return instance.Location{Data: c.From, Meta: c.FromMeta, Bytes: c.FromBytes}
}

func (c *cloneCommand) target() instance.Location {
	return instance.Location{Data: c.To, Meta: c.ToMeta, Bytes: c.ToBytes}
}

// Validate reports all errors.
func (c *cloneCommand) Validate() error {
	var errs []error
	complete := true
	for _, end := range []struct {
		flag string
		l    instance.Location
	}{{"--from", c.source()}, {"--to", c.target()}} {
		if end.l.Data == "" && (end.l.Meta == "" || end.l.Bytes == "") {
			complete = false
			errs = append(errs, fmt.Errorf("%s DIR, or both %s-meta and %s-bytes, is required", end.flag, end.flag, end.flag))
		}
		errs = append(errs, end.l.Validate(end.flag+"-"))
	}
	if complete && c.source().Overlaps(c.target()) {
		errs = append(errs, errors.New("--from and --to have their metadata or their bytes in the same place: an instance is cloned as a whole"))
	}
	return errors.Join(errs...)
}

// Help returns examples.
func (cloneCommand) Help() string {
	return examples("sluice clone --from ./sluice-data --to ./copy", "sluice clone --from data --to-meta postgres://HOST/DB --to-bytes s3://BUCKET")
}

// printedClone is the result in JSON.
type printedClone struct {
	Instance string `json:"instance"`
	Existed  bool   `json:"existed"` // reports whether it was cloned before
	Objects  int64  `json:"objects"`
	Bytes    int64  `json:"bytes"`
	Rows     int64  `json:"rows"`
}

// Run clones the instance, or resumes an earlier run.
func (c *cloneCommand) Run(ctx context.Context, console *console) error {
	progress := newProgress(console.err, c.Quiet || c.JSON)
	defer progress.Close()
	result, err := instance.Clone(ctx, c.source(), c.target(), instance.CloneOptions{
		Progress: progress.update,
		Damaged:  func(key string, err error) { progress.message(fmt.Sprintf("object %s: %v", key, err)) },
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted: run the same command again to resume")
	case err != nil:
		return err
	case c.JSON:
		return terminal.WriteJSON(console.out, printedClone{result.ID, result.Existed, result.Objects, result.Bytes, result.Rows})
	case result.Existed:
		return printLine(console.out, fmt.Sprintf("The instance %s was cloned before.", result.ID))
	default:
		return printLine(console.out, fmt.Sprintf("Cloned the instance %s: %d objects of %d bytes, %d rows.", result.ID, result.Objects, result.Bytes, result.Rows))
	}
}

// migrateCommand is the former name of clone.
type migrateCommand struct{ cloneCommand }

// Run clones the instance.
func (c *migrateCommand) Run(ctx context.Context, console *console) error {
	if err := printLine(console.err, "sluice: migrate is deprecated and will be removed: use clone"); err != nil {
		return err
	}
	return c.cloneCommand.Run(ctx, console)
}
