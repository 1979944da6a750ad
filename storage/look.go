package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/bytestore"
	"sluice/database/sqlstore"
	"sluice/internal/datadir"
	"sluice/internal/task"
	"sluice/internal/units"
	"sluice/internal/vfs"
)

// ErrDamaged is returned by Open, OpenMeta, OpenEndpoint and OpenReader if the database's pages are
// damaged, or its log before whole commits. The database is not changed.
var ErrDamaged = errors.New("the database is damaged: restore a backup of the data folder, or see the runbook for other ways")

// maxPrinted is how many findings, or blobs, are named in an error or in the log.
const maxPrinted = 10

// Look is the result of checking a database before its use, because its file is not recorded as
// whole. It is zero if nothing was checked.
type Look struct {
	Why   string // the check was made, in a clause
	Found Differences
	Took  time.Duration

	damaged bool // it is recorded that the file, or the one before it, is damaged
}

// Steps is how far a Look is.
type Steps struct {
	Why         string // as Look's
	What        string // is checked: "pages" or "objects"
	Done, Total int64  // tables, the first of them standing for all pages; or objects
}

// String returns how far the check is, for people.
func (s Steps) String() string {
	return fmt.Sprintf("the %s are checked, %d of %d", s.What, s.Done, s.Total)
}

// SetBack returns why the instance lacks data that it has acknowledged, or "". It has one line.
func (l *Look) SetBack() string {
	if l.Found.Missing > 0 {
		return fmt.Sprintf("%s, and %s", l.Why, l.Found.lacks())
	}
	if l.damaged {
		return l.Why + ", and the present database may lack changes"
	}
	return ""
}

// lacks describes the missing objects, in one line.
func (d *Differences) lacks() string {
	text := fmt.Sprintf("%d of %d objects are missing or cut, with %s", d.Missing, d.Objects, units.Bytes(d.MissingBytes))
	if d.DamagedBlobs == 0 {
		return text
	}
	var names []string
	for _, b := range d.Blobs[:min(len(d.Blobs), maxPrinted)] {
		names = append(names, fmt.Sprintf("%q", b))
	}
	return text + "; blobs that cannot be read: " + d.Count() + ", such as " + strings.Join(names, ", ")
}

// Count returns DamagedBlobs for people.
func (d *Differences) Count() string {
	if d.More {
		return fmt.Sprintf("at least %d", d.DamagedBlobs)
	}
	return fmt.Sprint(d.DamagedBlobs)
}

// why returns why a file with this trust is checked, or "".
func why(known datadir.Trust) string {
	switch known {
	case datadir.Whole:
		return ""
	case datadir.Damaged:
		return "damage was found in the database"
	default:
		return "the database's file is not the one that is recorded in its folder as whole"
	}
}

// lookAtPages checks the pages in a folder's database, unless the file is recorded as whole. It
// returns an ErrDamaged with its findings.
func lookAtPages(ctx context.Context, dir *datadir.Dir, report func(Steps) error) (Look, error) {
	known, err := dir.Trust()
	if err != nil || known == datadir.Whole {
		return Look{}, err
	}
	began := time.Now()
	l := Look{Why: why(known), damaged: known == datadir.Damaged}
	found, err := sqlstore.CheckSQLite(ctx, dir.Path(datadir.Database), func(done, total int) error {
		return report(Steps{l.Why, "pages", int64(done), int64(total)})
	})
	if err != nil {
		return l, fmt.Errorf("checking the database in %s: %w", dir.Path(""), err)
	}
	if len(found) > 0 {
		some := strings.Join(found[:min(len(found), maxPrinted)], "; ")
		err := fmt.Errorf("%w; in %s were found: %d, such as %s", ErrDamaged, dir.Path(""), len(found), some)
		return l, errors.Join(err, dir.RecordDamaged())
	}
	l.Took = time.Since(began)
	return l, nil
}

// lookAtObjects compares the objects with the database's references, after lookAtPages has checked
// it. Missing objects are recorded in the database as a setback, which node has seen, and only then
// is the file recorded as whole: from then on the database itself has the record.
func (l *Look) lookAtObjects(ctx context.Context, dir *datadir.Dir, sql *sqlstore.Store, bytes bytestore.Store, node string, report func(Steps) error) error {
	began := time.Now()
	total, _, err := sql.CountObjects(ctx)
	if err != nil {
		return err
	}
	step := func(done int64) error { return report(Steps{l.Why, "objects", done, total}) }
	if err := step(0); err != nil {
		return err
	}
	if l.Found, err = compare(ctx, sql, bytes, maxPrinted, step); err != nil {
		return fmt.Errorf("comparing the objects with the database: %w", err)
	}
	l.Took += time.Since(began)
	if how := l.SetBack(); how != "" {
		now, err := sql.History(ctx)
		if err != nil {
			return err
		}
		if err := sql.RecordSetback(ctx, now.Generation, fmt.Sprintf("%s: %s", node, how)); err != nil {
			return err
		}
	}
	return recordWhole(dir)
}

// recordWhole records that the database is whole. On a full disk the next start checks it again,
// because nothing could be deleted if this one failed.
func recordWhole(dir *datadir.Dir) error {
	err := dir.RecordWhole()
	if vfs.IsFull(err) {
		return nil
	}
	return err
}

// quickWait is how long a start waits for the quick check.
const quickWait = 5 * time.Second

// startQuickCheck begins the quick check, and waits for its end for wait at most.
// From then on it rests after each step for as long as the step took. found is called with the
// result if the check has found damage or could not be made. The function that startQuickCheck
// returns interrupts the check and waits for its end.
func startQuickCheck(wait time.Duration, check func(ctx context.Context, rest func(time.Duration)) error, found func(error)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	waited := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := check(ctx, func(took time.Duration) {
			select {
			case <-waited:
				_ = task.Wait(ctx, took) // check returns the error of ctx
			default:
			}
		})
		if err != nil && ctx.Err() == nil {
			found(err)
		}
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
	close(waited)
	return func() {
		cancel()
		<-ended
	}
}
