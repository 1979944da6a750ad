package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"sluice/blob"
	"sluice/bytestore"
	"sluice/metastore"
)

// migrateCommand copies an instance, which must not be served meanwhile, to a
// place that is empty.
type migrateCommand struct {
	From      string `placeholder:"DIR" help:"The data folder of the instance, for what of it is in a folder."`
	FromMeta  string `placeholder:"DSN" help:"Where the metadata is, if not in that folder, such as postgres://HOST/NAME."`
	FromBytes string `placeholder:"DSN" help:"Where the bytes are, if not in that folder, such as s3://BUCKET/PREFIX?endpoint=https://HOST."`
	To        string `placeholder:"DIR" help:"The data folder to be, for what goes to a folder."`
	ToMeta    string `placeholder:"DSN" help:"Where the metadata goes, if not to that folder."`
	ToBytes   string `placeholder:"DSN" help:"Where the bytes go, if not to that folder."`
	Quiet     bool   `help:"Do not tell how far it is."`
}

func (c *migrateCommand) from() places {
	return places{metaPlace: metaPlace{Data: c.From, Meta: c.FromMeta}, Bytes: c.FromBytes}
}

func (c *migrateCommand) to() places {
	return places{metaPlace: metaPlace{Data: c.To, Meta: c.ToMeta}, Bytes: c.ToBytes}
}

// Validate reports everything that is wrong, at once.
func (c *migrateCommand) Validate() error {
	var errs []error
	for flag, p := range map[string]places{"--from": c.from(), "--to": c.to()} {
		if p.Data == "" && (p.Meta == "" || p.Bytes == "") {
			errs = append(errs, fmt.Errorf("%s DIR, or both %s-meta and %s-bytes: must be given", flag, flag, flag))
		}
		errs = append(errs, p.checkDSNs(flag+"-"))
	}
	if c.shareAPart() {
		errs = append(errs, errors.New("--from and --to have their metadata or their bytes in the same place: an instance is copied as a whole"))
	}
	return errors.Join(errs...)
}

// shareAPart tells whether a part of the source is named for the target as well.
func (c *migrateCommand) shareAPart() bool {
	from, ferr := filepath.Abs(c.From)
	to, terr := filepath.Abs(c.To)
	sameFolder := ferr == nil && terr == nil && from == to
	same := func(from, to string) bool { return from == to && (from != "" || sameFolder) }
	return same(c.FromMeta, c.ToMeta) || same(c.FromBytes, c.ToBytes)
}

// Run copies the instance. Whatever ended an earlier run, this one goes on where
// it was.
func (c *migrateCommand) Run(console *console) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := c.run(ctx, console)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted: the same command goes on from here")
	}
	return err
}

func (c *migrateCommand) run(ctx context.Context, console *console) (err error) {
	var ends []func() error
	defer func() {
		for _, end := range slices.Backward(ends) {
			err = errors.Join(err, end())
		}
	}()
	open := func(name string, p places, existing bool) (*side, error) {
		s, err := openSide(ctx, p, existing)
		if err != nil {
			return nil, fmt.Errorf("the %s: %w", name, err)
		}
		ends = append(ends, s.Close)
		if !p.shared() {
			return s, nil
		}
		held, release, err := hold(ctx, s.meta, holdPatience)
		if err != nil {
			return nil, fmt.Errorf("the %s: %w", name, err)
		}
		ctx, ends = held, append(ends, release)
		return s, nil
	}
	m := &migration{progress: newProgress(console.err, c.Quiet), complain: console.err}
	if m.from, err = open("source", c.from(), true); err != nil {
		return err
	}
	if m.to, err = open("target", c.to(), false); err != nil {
		return err
	}
	result, err := m.run(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return printLine(console.out, result)
}

// Both parts of a target carry the id of the source from before the first thing
// is in it. blob.Bind takes neither an object with another name nor what it
// finds in the metadata for an instance without an id of its own, so that
// nothing serves half of a copy.
const (
	migrationObject = bytestore.Key("sluice-migration")
	migrationFact   = "migration"
)

// migration copies an instance: the bytes first, then the metadata, and when all
// of it is there and compared, the instance's id.
type migration struct {
	from, to *side
	progress *progress
	complain io.Writer // gets a line for each object that is damaged
}

// run tells what was done.
func (m *migration) run(ctx context.Context) (string, error) {
	id, err := blob.Bind(ctx, m.from.meta, m.from.bytes)
	if err != nil {
		return "", fmt.Errorf("the source: %w", err)
	}
	marks, err := readMarks(ctx, m.to)
	if err != nil {
		return "", fmt.Errorf("the target: %w", err)
	}
	if marks.fact == id && marks.object == id {
		return fmt.Sprintf("The instance %s is there already.", id), m.to.bytes.Delete(ctx, migrationObject)
	}
	if err := m.begin(ctx, id, marks); err != nil {
		return "", fmt.Errorf("the target: %w", err)
	}
	objects, bytes, err := m.copyObjects(ctx)
	if err != nil {
		return "", err
	}
	rows, err := m.copyMeta(ctx)
	if err != nil {
		return "", err
	}
	if err := m.publish(ctx, id); err != nil {
		return "", fmt.Errorf("the target: %w", err)
	}
	return fmt.Sprintf("The instance %s is copied: %d objects of %d bytes, %d rows.", id, objects, bytes, rows), nil
}

// marks are the ids that a side carries, empty where there is none.
type marks struct {
	object, fact                   string // of the instance
	migrationObject, migrationFact string // of what is being copied there
	facts                          int
}

func readMarks(ctx context.Context, s *side) (marks, error) {
	object, err := readID(ctx, s.bytes, blob.InstanceObject)
	if err != nil {
		return marks{}, err
	}
	migration, err := readID(ctx, s.bytes, migrationObject)
	if err != nil {
		return marks{}, err
	}
	facts, err := s.sql.Facts(ctx)
	return marks{object, facts[blob.InstanceFact], migration, facts[migrationFact], len(facts)}, err
}

// readID reads an object that holds an id; it is empty when there is none.
func readID(ctx context.Context, store bytestore.Store, key bytestore.Key) (string, error) {
	const length = 32 // hex digits
	r, err := store.Open(ctx, key, 0, length)
	if errors.Is(err, bytestore.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := make([]byte, length)
	_, err = io.ReadFull(r, id)
	return string(id), errors.Join(err, r.Close())
}

// begin marks an empty target with the id of the source, or makes sure that it
// is marked so.
func (m *migration) begin(ctx context.Context, id string, have marks) error {
	for _, other := range []string{have.fact, have.object} {
		if other != "" && (other != id || have.migrationFact != id) {
			return fmt.Errorf("it is the instance %s: copy to an empty place", other)
		}
	}
	for _, other := range []string{have.migrationFact, have.migrationObject} {
		if other != "" && other != id {
			return fmt.Errorf("it holds a part of a copy of the instance %s, this is %s: empty it, or copy to another place", other, id)
		}
	}
	if have.migrationFact == id && have.migrationObject == id {
		return nil
	}
	if have.migrationFact == id {
		return fmt.Errorf("its metadata holds a part of a copy whose bytes are in another place: name that, or empty it")
	}
	if err := m.checkEmpty(ctx, have); err != nil {
		return err
	}
	if have.migrationObject == "" {
		if err := m.to.bytes.Put(ctx, migrationObject, strings.NewReader(id), int64(len(id))); err != nil {
			return err
		}
	}
	return m.to.meta.SetFact(ctx, migrationFact, id)
}

// checkEmpty refuses a target that holds anything but the mark of this copy.
func (m *migration) checkEmpty(ctx context.Context, have marks) error {
	empty, err := m.to.meta.Empty(ctx)
	if err != nil {
		return err
	}
	keys, err := m.to.meta.ListKeys(ctx, "", 1)
	if err != nil {
		return err
	}
	if !empty || len(keys) > 0 || have.facts > 0 {
		return errors.New("it has metadata already: copy to an empty place")
	}
	return m.to.bytes.List(ctx, "", func(o bytestore.Object) error {
		if o.Key == migrationObject {
			return nil
		}
		return fmt.Errorf("it has bytes already, such as the object %s: copy to an empty place", o.Key)
	})
}

// copyMeta copies the metadata and tells how many rows it has.
func (m *migration) copyMeta(ctx context.Context) (int64, error) {
	rows, err := m.from.sql.CountRows(ctx)
	if err != nil {
		return 0, fmt.Errorf("the source: %w", err)
	}
	m.progress.begin("metadata", rows, "rows")
	if err := m.to.sql.CopyFrom(ctx, m.from.sql, m.progress.add); err != nil {
		return 0, fmt.Errorf("copying the metadata: %w", err)
	}
	m.progress.end()
	facts, err := m.from.sql.Facts(ctx)
	if err != nil {
		return 0, fmt.Errorf("the source: %w", err)
	}
	for name, value := range facts {
		if name == blob.InstanceFact || name == migrationFact {
			continue
		}
		if err := setFact(ctx, m.to.meta, name, value); err != nil {
			return 0, fmt.Errorf("the target: %w", err)
		}
	}
	return rows, nil
}

// setFact stores a fact that may be there already, with the same value.
func setFact(ctx context.Context, facts metastore.Facts, name, value string) error {
	err := facts.SetFact(ctx, name, value)
	if !errors.Is(err, metastore.ErrExists) {
		return err
	}
	if have, err := facts.Fact(ctx, name); err != nil || have == value {
		return err
	}
	return fmt.Errorf("another value was there first: %w", err)
}

// publish gives the target the instance's id, the metadata last, which makes it
// the instance.
func (m *migration) publish(ctx context.Context, id string) error {
	err := m.to.bytes.Put(ctx, blob.InstanceObject, strings.NewReader(id), int64(len(id)))
	if err != nil && !errors.Is(err, bytestore.ErrExists) {
		return err
	}
	if err := setFact(ctx, m.to.meta, blob.InstanceFact, id); err != nil {
		return err
	}
	if err := m.to.bytes.Delete(ctx, migrationObject); err != nil {
		return err
	}
	_, err = blob.Bind(ctx, m.to.meta, m.to.bytes)
	return err
}
