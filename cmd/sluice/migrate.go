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
	"sluice/internal/boottime"
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
	m := &migration{progress: newProgress(console.err, c.Quiet), complain: console.err}
	holdSide := func(name string, p places, s *side) error {
		if !p.shared() {
			return nil
		}
		held, release, err := hold(ctx, boottime.Now, s.meta, holdPatience)
		if err != nil {
			return fmt.Errorf("the %s: %w", name, err)
		}
		ctx, ends = held, append(ends, release)
		return nil
	}
	if m.from, err = openSide(ctx, c.from(), true, nil); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	ends = append(ends, m.from.Close)
	if err := holdSide("source", c.from(), m.from); err != nil {
		return err
	}
	if err := m.identify(ctx); err != nil {
		return err
	}
	// Nothing is made at the target before it is marked, and waiting for its lease
	// takes seconds.
	if m.to, err = openSide(ctx, c.to(), false, m.markBytes); err != nil {
		return fmt.Errorf("the target: %w", err)
	}
	ends = append(ends, m.to.Close)
	there, err := m.begin(ctx)
	if err != nil {
		return err
	}
	if err := holdSide("target", c.to(), m.to); err != nil {
		return err
	}
	result, err := m.finish(ctx, there)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return printLine(console.out, result)
}

// migration copies an instance: the bytes first, then the metadata, and when all
// of it is there and compared, the instance's id. Both parts of a target carry
// the id of the source from before the first thing is in it: the bytes as
// blob.CopyObject, the metadata as blob.CopyOf in the place of an id of its own.
// blob.Bind refuses both, so that nothing serves half of a copy.
type migration struct {
	from, to *side
	id       string // of the source
	marked   bool   // this run put blob.CopyObject
	progress *progress
	complain io.Writer // gets a line for each object that is damaged
}

// run copies the instance between sides that are open, and reports what was
// done.
func (m *migration) run(ctx context.Context) (string, error) {
	if err := m.identify(ctx); err != nil {
		return "", err
	}
	if err := m.markBytes(ctx, m.to.bytes); err != nil {
		return "", fmt.Errorf("the target: %w", err)
	}
	there, err := m.begin(ctx)
	if err != nil {
		return "", err
	}
	return m.finish(ctx, there)
}

// identify finds out which instance the source is.
func (m *migration) identify(ctx context.Context) (err error) {
	if m.id, err = blob.Bind(ctx, m.from.meta, m.from.bytes); err != nil {
		return fmt.Errorf("the source: %w", err)
	}
	return nil
}

// finish makes a target that is marked the instance. there says that it is
// already.
func (m *migration) finish(ctx context.Context, there bool) (string, error) {
	if there {
		return fmt.Sprintf("The instance %s is there already.", m.id), m.to.bytes.Delete(ctx, blob.CopyObject)
	}
	objects, bytes, err := m.copyObjects(ctx)
	if err != nil {
		return "", err
	}
	rows, err := m.copyMeta(ctx)
	if err != nil {
		return "", err
	}
	if err := m.publish(ctx); err != nil {
		return "", fmt.Errorf("the target: %w", err)
	}
	return fmt.Sprintf("The instance %s is copied: %d objects of %d bytes, %d rows.", m.id, objects, bytes, rows), nil
}

// marks are the ids that a side carries, empty where there is none.
type marks struct {
	object, copied string // of the bytes: of the instance, and of what is being copied there
	fact           string // of the metadata: an id, or blob.CopyOf one
	facts          int
}

func readMarks(ctx context.Context, s *side) (marks, error) {
	have, err := readByteMarks(ctx, s.bytes)
	if err != nil {
		return marks{}, err
	}
	facts, err := s.sql.Properties(ctx)
	have.fact, have.facts = facts[blob.InstanceProperty], len(facts)
	return have, err
}

func readByteMarks(ctx context.Context, bytes bytestore.Store) (have marks, err error) {
	if have.object, err = blob.ReadID(ctx, bytes, blob.InstanceObject); err != nil {
		return marks{}, err
	}
	have.copied, err = blob.ReadID(ctx, bytes, blob.CopyObject)
	return have, err
}

// markBytes marks the bytes of an empty target with the id of the source. Those
// of a copy that was begun stay as they are, and so do those of this instance,
// which begin judges by their metadata.
func (m *migration) markBytes(ctx context.Context, bytes bytestore.Store) error {
	have, err := readByteMarks(ctx, bytes)
	switch {
	case err != nil:
		return err
	case have.object != "" && have.object != m.id:
		return fmt.Errorf("it is the instance %s: copy to an empty place", have.object)
	case have.copied != "" && have.copied != m.id:
		return fmt.Errorf("it holds a part of a copy of the instance %s, this is %s: empty it, or copy to another place", have.copied, m.id)
	case have.copied != "" || have.object != "":
		return nil
	}
	if err := bytes.List(ctx, "", func(o bytestore.Object) error {
		return fmt.Errorf("it has bytes already, such as the object %s: copy to an empty place", o.Key)
	}); err != nil {
		return err
	}
	if err := bytes.Put(ctx, blob.CopyObject, strings.NewReader(m.id), int64(len(m.id))); err != nil {
		return err
	}
	m.marked = true
	return nil
}

// begin marks the metadata of a target whose bytes are marked, or makes sure that
// it is marked, and reports whether the target is this instance already. When it
// refuses the metadata, it takes the mark of the bytes back.
func (m *migration) begin(ctx context.Context) (there bool, err error) {
	there, err = m.markMeta(ctx)
	if err == nil {
		return there, nil
	}
	if m.marked && !errors.Is(err, metastore.ErrUnknownOutcome) {
		err = errors.Join(err, m.to.bytes.Delete(ctx, blob.CopyObject))
	}
	return false, fmt.Errorf("the target: %w", err)
}

func (m *migration) markMeta(ctx context.Context) (there bool, err error) {
	have, err := readMarks(ctx, m.to)
	if err != nil {
		return false, err
	}
	source, copying := strings.CutPrefix(have.fact, blob.CopyOf(""))
	switch {
	case have.fact == m.id && have.object == m.id:
		return true, nil
	case copying && source != m.id:
		return false, fmt.Errorf("it holds a part of a copy of the instance %s, this is %s: empty it, or copy to another place", source, m.id)
	case copying && m.marked:
		return false, errors.New("its metadata holds a part of a copy whose bytes are in another place: name that, or empty it")
	case !copying && have.fact != "":
		return false, fmt.Errorf("it is the instance %s: copy to an empty place", have.fact)
	case have.copied != m.id:
		return false, fmt.Errorf("its bytes are those of the instance %s: copy to an empty place", have.object)
	case copying:
		return false, nil
	}
	if err := m.checkNoMeta(ctx, have); err != nil {
		return false, err
	}
	return false, m.to.meta.SetProperty(ctx, blob.InstanceProperty, blob.CopyOf(m.id))
}

// checkNoMeta refuses metadata that is not empty.
func (m *migration) checkNoMeta(ctx context.Context, have marks) error {
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
	return nil
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
	facts, err := m.from.sql.Properties(ctx)
	if err != nil {
		return 0, fmt.Errorf("the source: %w", err)
	}
	for name, value := range facts {
		if slices.Contains(factsOfPlace, name) {
			continue
		}
		if err := setFact(ctx, m.to.meta, name, value); err != nil {
			return 0, fmt.Errorf("the target: %w", err)
		}
	}
	return rows, nil
}

// factsOfPlace are the facts that belong to a database or its bytes, and not to
// the instance. "migration" was left by copies of earlier versions.
var factsOfPlace = []string{blob.InstanceProperty, blob.EpochProperty, "migration"}

// setFact stores a fact that may be there already, with the same value.
func setFact(ctx context.Context, facts metastore.Properties, name, value string) error {
	err := facts.SetProperty(ctx, name, value)
	if !errors.Is(err, metastore.ErrExists) {
		return err
	}
	if have, err := facts.Property(ctx, name); err != nil || have == value {
		return err
	}
	return fmt.Errorf("another value was there first: %w", err)
}

// publish gives the target the instance's id, the metadata last, which makes it
// the instance.
func (m *migration) publish(ctx context.Context) error {
	err := m.to.bytes.Put(ctx, blob.InstanceObject, strings.NewReader(m.id), int64(len(m.id)))
	if err != nil && !errors.Is(err, bytestore.ErrExists) {
		return err
	}
	if other, err := blob.ReadID(ctx, m.to.bytes, blob.InstanceObject); err != nil || other != m.id {
		return errors.Join(err, fmt.Errorf("its bytes were taken by the instance %s meanwhile: copy to an empty place", other))
	}
	if err := m.to.meta.ReplaceProperty(ctx, blob.InstanceProperty, blob.CopyOf(m.id), m.id); err != nil {
		return err
	}
	if err := m.to.bytes.Delete(ctx, blob.CopyObject); err != nil {
		return err
	}
	_, err = blob.Bind(ctx, m.to.meta, m.to.bytes)
	return err
}
