package instances

import (
	"context"
	"errors"
	"fmt"

	"sluice/backup"
	"sluice/cmd/sluice/internal/cli"
	"sluice/instance"
	"sluice/internal/units"
)

// Restore makes an instance of a backup.
type Restore struct {
	placeArg     `embed:""`
	chosenBackup `embed:""`
	To           string `placeholder:"DIR" help:"Data folder to create."`
	ToMeta       string `placeholder:"DSN" help:"Database for the metadata, if not in that folder."`
	ToBytes      string `placeholder:"DSN" help:"Object store for the bytes, if not in that folder."`
	Account      string `env:"-" placeholder:"ACCOUNT" help:"Restore the blobs of this account only, as a new instance without keys, sessions and channels."`
	Prefix       string `env:"-" placeholder:"PREFIX" help:"With --account: only blobs with names that begin so."`
	NoCheck      bool   `env:"-" help:"Do not check the instance afterwards."`
	cli.OutputFlags
}

// Validate reports all errors.
func (c *Restore) Validate() error {
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

func (c *Restore) target() instance.Location {
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

	Returned instance.Returned `json:"returned"` // rights that the backup had
}

// Run restores the backup and checks the instance.
func (c *Restore) Run(ctx context.Context, console *cli.Console) error {
	return c.open(ctx, false, func(repo *backup.Repository) error {
		m, err := repo.Open(ctx, c.Backup)
		if err != nil {
			return err
		}
		progress := newProgress(console.Err, c.Quiet || c.JSON)
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

func (c *Restore) print(console *cli.Console, m *backup.Manifest, result instance.RestoreResult, checked instance.Checked) error {
	var err error
	if checked.Found > 0 {
		err = cli.ExitWith(cli.ExitDamaged, fmt.Errorf("the restored instance has damage: %d findings; sluice check names them", checked.Found))
	}
	line := fmt.Sprintf("Restored the backup %s as generation %d of the instance %s: %s, %s with %s.",
		m.ID(), result.Generation, result.ID, units.Count(result.Blobs, "blob"), units.Count(result.Objects, "object"), units.Bytes(result.Bytes))
	if result.Existed {
		line = fmt.Sprintf("The instance %s is there already: nothing was restored.", result.ID)
	}
	if result.Lacking > 0 {
		line += fmt.Sprintf("\nThe backup lacks %s, damaged when it was made: sluice check names their blobs.", units.Count(result.Lacking, "object"))
	}
	return errors.Join(err, c.Result(console, printedRestore{
		m.ID(), result.ID, result.Generation, result.Existed, result.Blobs, result.Objects, result.Bytes, result.Lacking, checked.Found, result.Returned,
	}, append([]string{line}, linesOfReturned(c.target(), result.Returned)...)...))
}
