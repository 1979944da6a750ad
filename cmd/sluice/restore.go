package main

import (
	"context"
	"errors"
	"fmt"

	"sluice/backup"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/instance"
	"sluice/internal/units"
)

// restoreCommand makes an instance of a backup.
type restoreCommand struct {
	placeArg     `embed:""`
	chosenBackup `embed:""`
	To           string `placeholder:"DIR" help:"Data folder to create."`
	ToMeta       string `placeholder:"DSN" help:"Database for the metadata, if not in that folder."`
	ToBytes      string `placeholder:"DSN" help:"Object store for the bytes, if not in that folder."`
	Account      string `env:"-" placeholder:"ACCOUNT" help:"Restore the blobs of this account only, as a new instance without keys, sessions and channels."`
	Prefix       string `env:"-" placeholder:"PREFIX" help:"With --account: only blobs with names that begin so."`
	NoCheck      bool   `env:"-" help:"Do not check the instance afterwards."`
	outputFlags
}

// Help describes the command and returns examples.
func (restoreCommand) Help() string {
	return `Makes an instance of a backup in an empty place, of either kind, and checks it. The instance has
the id that was backed up, and begins its next generation: do not serve both. If the
command is interrupted, the same one continues.

` + examples("sluice restore ./backups --to ./restored", "sluice restore s3://BACKUPS --to-meta postgres://HOST/DB --to-bytes s3://NEW",
		"sluice restore ./backups --to ./photos --account 0x1 --prefix photos/")
}

// Validate reports all errors.
func (c *restoreCommand) Validate() error {
	l := c.target()
	var errs []error
	if l.Data == "" && (l.Meta == "" || l.Bytes == "") {
		errs = append(errs, errors.New("--to DIR, or both --to-meta and --to-bytes, is required"))
	}
	if c.Prefix != "" && c.Account == "" {
		errs = append(errs, errors.New("--prefix needs --account"))
	}
	return errors.Join(append(errs, l.Validate("--to-"))...)
}

func (c *restoreCommand) target() instance.Location {
	return instance.Location{Data: c.To, Meta: c.ToMeta, Bytes: c.ToBytes}
}

// printedRestore is the result in JSON.
type printedRestore struct {
	Backup     string `json:"backup"`
	Instance   string `json:"instance"`
	Generation int64  `json:"generation"`
	Existed    bool   `json:"existed"` // the instance is there already
	Blobs      int64  `json:"blobs"`
	Objects    int64  `json:"objects"`
	Bytes      int64  `json:"bytes"`
	Lacking    int64  `json:"lacking"` // objects that the backup lacks
	Found      int64  `json:"found"`   // damage
}

// Run restores the backup and checks the instance.
func (c *restoreCommand) Run(ctx context.Context, console *console) error {
	return c.open(ctx, false, func(repo *backup.Repository) error {
		m, err := repo.Open(ctx, c.Backup)
		if err != nil {
			return err
		}
		progress := newProgress(console.err, c.Quiet || c.JSON)
		defer progress.Close()
		result, err := instance.Restore(ctx, repo, m, c.target(), instance.RestoreOptions{
			Account: c.Account, Prefix: c.Prefix, Progress: progress.update,
			Damaged: func(name string, err error) { progress.message(fmt.Sprintf("object %s: %v", name, err)) },
		})
		if err != nil {
			if ctx.Err() != nil {
				return errors.New("interrupted: run the same command again to continue")
			}
			return err
		}
		var checked instance.Checked
		if !c.NoCheck {
			if checked, err = instance.Check(ctx, c.target(), instance.CheckOptions{Progress: progress.update}); err != nil {
				return fmt.Errorf("the instance is restored, and could not be checked: %w", err)
			}
		}
		progress.Close()
		return c.print(console, m, result, checked)
	})
}

func (c *restoreCommand) print(console *console, m *backup.Manifest, result instance.RestoreResult, checked instance.Checked) error {
	var err error
	if checked.Found > 0 {
		err = exitWith(exitDamaged, fmt.Errorf("the restored instance has damage: %d findings; sluice check names them", checked.Found))
	}
	if c.JSON {
		return errors.Join(err, terminal.WriteJSON(console.out, printedRestore{
			m.ID(), result.ID, result.Generation, result.Existed, result.Blobs, result.Objects, result.Bytes, result.Lacking, checked.Found,
		}))
	}
	line := fmt.Sprintf("Restored the backup %s as generation %d of the instance %s: %s, %s with %s.",
		m.ID(), result.Generation, result.ID, units.Count(result.Blobs, "blob"), units.Count(result.Objects, "object"), units.Bytes(result.Bytes))
	if result.Existed {
		line = fmt.Sprintf("The instance %s is there already: nothing was restored.", result.ID)
	}
	if result.Lacking > 0 {
		line += fmt.Sprintf("\nThe backup lacks %s, damaged when it was made: sluice check names their blobs.", units.Count(result.Lacking, "object"))
	}
	return errors.Join(printLine(console.out, line), err)
}
