// Package instances has the commands that back up, restore, check and repair an instance.
package instances

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"sluice/backup"
	"sluice/bytestore"
	"sluice/cmd/sluice/internal/cli"
	"sluice/cmd/sluice/internal/settings"
	"sluice/cmd/sluice/internal/terminal"
	"sluice/instance"
	"sluice/internal/units"
	"sluice/internal/vfs"
	"sluice/storage"
)

// Backup makes and keeps backups.
type Backup struct {
	Create backupCreate `cmd:"" default:"withargs" help:"Make a backup of an instance, also while it is served."`
	Ls     backupLs     `cmd:"" aliases:"list" help:"List the backups in a place."`
	Verify backupVerify `cmd:"" help:"Compare a backup with its checksums."`
	Prune  backupPrune  `cmd:"" help:"Remove old backups, and the objects that no other needs."`
}

// placeArg names a place for backups.
type placeArg struct {
	Place string `arg:"" placeholder:"PLACE" help:"Folder, or bucket as s3://BUCKET/PREFIX?endpoint=https://HOST."`
}

// open opens the place and calls fn.
func (p placeArg) open(ctx context.Context, write bool, fn func(repo *backup.Repository) error) error {
	objects, closePlace, err := storage.OpenPlace(ctx, p.Place, backup.RepositoryObject, write)
	if errors.Is(err, vfs.ErrLocked) {
		return cli.ExitWith(cli.ExitRefused, fmt.Errorf("the place for backups: another process writes to it: %w", err))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return cli.ExitWith(cli.ExitNotFound, fmt.Errorf("the place for backups: there is no folder %s", terminal.Name(p.Place)))
	}
	if err != nil {
		return fmt.Errorf("the place for backups: %w", err)
	}
	return explainBackup(errors.Join(fn(&backup.Repository{Bytes: objects}), closePlace()))
}

// explainBackup returns an error of a repository with its exit code.
func explainBackup(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backup.ErrDamaged):
		return cli.ExitWith(cli.ExitDamaged, err)
	case errors.Is(err, backup.ErrNotFound):
		return cli.ExitWith(cli.ExitNotFound, err)
	case errors.Is(err, backup.ErrInUse):
		return cli.ExitWith(cli.ExitRefused, err)
	case errors.Is(err, instance.ErrIncomplete):
		return cli.ExitWith(cli.ExitPartly, err)
	default:
		return err
	}
}

// keepFlags select the backups to keep.
type keepFlags struct {
	KeepLast    int `env:"-" placeholder:"N" help:"Keep the newest N backups."`
	KeepHourly  int `env:"-" placeholder:"N" help:"Keep the newest backup in each of N hours."`
	KeepDaily   int `env:"-" placeholder:"N" help:"Keep the newest backup in each of N days."`
	KeepWeekly  int `env:"-" placeholder:"N" help:"Keep the newest backup in each of N weeks."`
	KeepMonthly int `env:"-" placeholder:"N" help:"Keep the newest backup in each of N months."`
	KeepYearly  int `env:"-" placeholder:"N" help:"Keep the newest backup in each of N years."`
}

func (f keepFlags) retention() backup.Retention {
	return backup.Retention{Last: f.KeepLast, Hourly: f.KeepHourly, Daily: f.KeepDaily, Weekly: f.KeepWeekly, Monthly: f.KeepMonthly, Yearly: f.KeepYearly}
}

// Validate reports negative numbers.
func (f keepFlags) Validate() error {
	if min(f.KeepLast, f.KeepHourly, f.KeepDaily, f.KeepWeekly, f.KeepMonthly, f.KeepYearly) < 0 {
		return errors.New("a number of backups to keep must not be negative")
	}
	return nil
}

// backupCreate makes a backup.
type backupCreate struct {
	placeArg               `embed:""`
	settings.InstanceFlags `embed:""`
	cli.RateFlag           `embed:""`
	keepFlags              `embed:""`
	cli.OutputFlags
}

// Validate reports all errors.
func (c *backupCreate) Validate() error {
	return errors.Join(c.InstanceFlags.Validate(), c.keepFlags.Validate())
}

// printedBackup is a backup in JSON.
type printedBackup struct {
	ID         string    `json:"id"`
	Instance   string    `json:"instance"`
	Snapshot   time.Time `json:"snapshot"`
	Blobs      int64     `json:"blobs"`
	Objects    int64     `json:"objects"`
	Bytes      int64     `json:"bytes"`
	NewObjects int64     `json:"newObjects"`
	NewBytes   int64     `json:"newBytes"`
	Damaged    []string  `json:"damaged"`
	Removed    []string  `json:"removed"`
}

// Run makes the backup and removes older ones.
func (c *backupCreate) Run(ctx context.Context, console *cli.Console) error {
	return c.open(ctx, true, func(repo *backup.Repository) error {
		progress := newProgress(console.Err, c.Quiet || c.JSON)
		defer progress.Close()
		made, err := instance.Backup(ctx, c.Location(), repo, instance.BackupOptions{
			Program: cli.Version(), Limit: c.Limit(), Progress: progress.update,
			Damaged: func(name string, err error) { progress.message(fmt.Sprintf("%s: %v", name, err)) },
			Again:   func(reason string) { progress.message("beginning again with another snapshot: " + reason) },
		})
		progress.Close()
		if err != nil && !errors.Is(err, instance.ErrIncomplete) {
			if ctx.Err() != nil {
				return errors.New("interrupted: run the same command again to continue")
			}
			return err
		}
		var pruned backup.Pruned
		if keep := c.retention(); keep != (backup.Retention{}) {
			var failed error
			if pruned, failed = repo.Prune(ctx, keep); failed != nil {
				err = errors.Join(err, fmt.Errorf("the backup %s is made; removing older ones: %w", made.ID(), failed))
			}
		}
		return errors.Join(err, c.print(console, made, pruned))
	})
}

func (c *backupCreate) print(console *cli.Console, made instance.BackupResult, pruned backup.Pruned) error {
	line := fmt.Sprintf("Made the backup %s: %s with %s; stored were %s.", made.ID(), units.Count(made.Blobs, "blob"), units.Bytes(made.Bytes), units.Bytes(made.NewBytes))
	if len(pruned.Removed) > 0 {
		line += fmt.Sprintf("\nRemoved %d older backups with %s.", len(pruned.Removed), units.Bytes(pruned.Bytes))
	}
	return c.Result(console, printedBackup{
		made.ID(), made.Instance, made.Snapshot, made.Blobs, made.Objects, made.Bytes, made.NewObjects, made.NewBytes,
		append([]string{}, made.Damaged...), append([]string{}, pruned.Removed...),
	}, line)
}

// backupLs lists backups.
type backupLs struct {
	placeArg `embed:""`
	cli.OutputFlags
}

// printedBackupRow is a backup of a list in JSON.
type printedBackupRow struct {
	ID       string    `json:"id"`
	Instance string    `json:"instance"`
	Snapshot time.Time `json:"snapshot"`
	Program  string    `json:"program"`
	Blobs    int64     `json:"blobs"`
	Bytes    int64     `json:"bytes"`
	Damaged  int       `json:"damaged"` // objects that the backup lacks
}

// Run lists the backups, the oldest first. A damaged manifest is an error after the list.
func (c *backupLs) Run(ctx context.Context, console *cli.Console) error {
	return c.open(ctx, false, func(repo *backup.Repository) error {
		ids, err := repo.List(ctx)
		if err != nil {
			return err
		}
		var damaged error
		out := c.Table(console, "ID\tSNAPSHOT\tBLOBS\tBYTES")
		for _, id := range ids {
			m, err := repo.Open(ctx, id)
			if errors.Is(err, backup.ErrDamaged) {
				damaged = errors.Join(damaged, err)
				continue
			}
			if err == nil {
				err = out.Row(printedBackupRow{m.ID(), m.Instance, m.Snapshot, m.Program, m.Blobs, m.Bytes, len(m.Damaged)},
					m.ID(), m.Snapshot.Format(time.RFC3339), fmt.Sprint(m.Blobs), units.Bytes(m.Bytes))
			}
			if err != nil {
				return err
			}
		}
		return errors.Join(damaged, out.Flush())
	})
}

// chosenBackup names a backup in a place.
type chosenBackup struct {
	Backup string `env:"-" placeholder:"ID" help:"The backup, or the beginning of its id. Default: the newest."`
}

// backupVerify verifies a backup.
type backupVerify struct {
	placeArg     `embed:""`
	chosenBackup `embed:""`
	ReadBytes    bool `env:"-" help:"Read all objects and compare them with their checksums."`
	cli.RateFlag `embed:""`
	cli.OutputFlags
}

// printedVerified is a verification's result in JSON.
type printedVerified struct {
	ID        string `json:"id"`
	Objects   int64  `json:"objects"`
	Bytes     int64  `json:"bytes"`
	BytesRead int64  `json:"bytesRead"`
	Damaged   int64  `json:"damaged"`
	Lacking   int64  `json:"lacking"` // objects that the instance lacked when the backup was made
}

// Run verifies the backup.
func (c *backupVerify) Run(ctx context.Context, console *cli.Console) error {
	return c.open(ctx, false, func(repo *backup.Repository) error {
		m, err := repo.Open(ctx, c.Backup)
		if err != nil {
			return err
		}
		progress := terminal.NewProgress(console.Err, c.Quiet || c.JSON)
		defer progress.Close()
		bytes := progress.Start("verified", m.Bytes)
		var done int64
		found, err := repo.Verify(ctx, m, backup.VerifyOptions{
			Bytes: c.ReadBytes, Limit: c.Limit(),
			Damaged:  func(name bytestore.Name, err error) { _ = progress.Print(fmt.Sprintf("sluice: %s: %v", name, err)) },
			Progress: func(n int64) { done += n; bytes.Set(done) },
		})
		bytes.End()
		if err != nil && !errors.Is(err, backup.ErrDamaged) {
			return err
		}
		if err != nil && !c.JSON {
			return err
		}
		line := fmt.Sprintf("The backup %s is whole: %s with %s, and %s of objects and packs were read.", m.ID(), units.Count(found.Objects, "object"), units.Bytes(found.Bytes), units.Bytes(found.Read))
		return errors.Join(err, c.Result(console, printedVerified{m.ID(), found.Objects, found.Bytes, found.Read, found.Damaged, found.Lacking}, line))
	})
}

// backupPrune removes backups.
type backupPrune struct {
	placeArg  `embed:""`
	keepFlags `embed:""`
	cli.OutputFlags
}

// Validate reports all errors.
func (c *backupPrune) Validate() error {
	if c.retention() == (backup.Retention{}) {
		return errors.New("at least one of the flags --keep-last, --keep-hourly, --keep-daily, --keep-weekly, --keep-monthly and --keep-yearly is required")
	}
	return c.keepFlags.Validate()
}

// printedPruned is a removal's result in JSON.
type printedPruned struct {
	Kept    []string `json:"kept"`
	Removed []string `json:"removed"`
	Objects int64    `json:"objects"`
	Bytes   int64    `json:"bytes"`
}

// Run removes the backups.
func (c *backupPrune) Run(ctx context.Context, console *cli.Console) error {
	return c.open(ctx, true, func(repo *backup.Repository) error {
		pruned, err := repo.Prune(ctx, c.retention())
		if err != nil {
			return err
		}
		return c.Result(console, printedPruned{append([]string{}, pruned.Kept...), append([]string{}, pruned.Removed...), pruned.Objects, pruned.Bytes},
			fmt.Sprintf("Kept %s and removed %d, with %s.", units.Count(len(pruned.Kept), "backup"), len(pruned.Removed), units.Bytes(pruned.Bytes)))
	})
}
