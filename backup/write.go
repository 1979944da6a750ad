package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/bytestore"
)

// Writer makes a backup. It must be used by one goroutine at a time, except Put.
type Writer struct {
	Manifest Manifest // the caller sets the fields that the Writer cannot know

	// Limit, if it is not nil, is called before so many bytes are stored.
	Limit func(ctx context.Context, bytes int64) error

	repo  *Repository
	batch bytestore.Batch          // the objects that are stored before the manifest
	have  map[bytestore.Name]int64 // the chunks and packs in the repository, with their sizes
	spool string                   // a folder with chunks that were not stored yet
	table chunker                  // writes the table that began last
	count struct{ objects, bytes int64 }
	stop  func() error
}

// Begin begins a backup in the repository, which it creates in an empty store. The context that it
// returns is for the backup. It returns ErrInUse while a Prune runs. The caller must Close the
// Writer.
func (r *Repository) Begin(ctx context.Context) (_ context.Context, _ *Writer, err error) {
	if err := r.create(ctx); err != nil {
		return nil, nil, err
	}
	w := &Writer{repo: r, have: map[bytestore.Name]int64{}}
	if ctx, w.stop, err = r.announce(ctx, runningPrefix, pruningPrefix); err != nil {
		return nil, nil, err
	}
	w.batch = bytestore.NewBatch(r.Bytes)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}()
	for _, prefix := range []string{chunkPrefix, packPrefix} {
		list, err := r.objects(ctx, prefix)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range list {
			w.have[o.Name] = o.Size
		}
	}
	w.spool, err = os.MkdirTemp("", "sluice-backup-")
	return ctx, w, err
}

// Close removes the Writer's files and its mark.
func (w *Writer) Close() error {
	err := w.batch.Close()
	if w.spool != "" {
		err = errors.Join(err, os.RemoveAll(w.spool))
	}
	return errors.Join(err, w.stop())
}

// Reset forgets all tables, because their snapshot is made again.
func (w *Writer) Reset() {
	w.Manifest.Tables, w.Manifest.Packs = nil, []Pack{}
	w.table = chunker{}
}

// Table begins a snapshot's table, and ends the one before.
func (w *Writer) Table(name string, columns []string, key int) error {
	if err := w.EndTables(); err != nil {
		return err
	}
	w.table = newChunker(name, columns, key, w.keep)
	return nil
}

// Rows adds rows to the table, ordered by key.
func (w *Writer) Rows(rows [][]any) error {
	for _, row := range rows {
		if err := w.table.add(row); err != nil {
			return err
		}
	}
	return nil
}

// EndTables ends the snapshot's last table.
func (w *Writer) EndTables() error {
	if w.table.table == nil {
		return nil
	}
	if err := w.table.end(); err != nil {
		return err
	}
	w.Manifest.Tables = append(w.Manifest.Tables, *w.table.table)
	w.table = chunker{}
	return nil
}

// keep writes a chunk that the repository lacks into the spool: storing it may take long, and the
// snapshot must not.
func (w *Writer) keep(c *Chunk, lines []byte) error {
	content, err := w.lacking(c, lines)
	if err != nil || content == nil {
		return err
	}
	return os.WriteFile(filepath.Join(w.spool, string(c.Object())), content, 0o600)
}

// lacking sets a chunk's size, and returns its content if the repository lacks it.
func (w *Writer) lacking(c *Chunk, lines []byte) ([]byte, error) {
	if w.known(c) {
		return nil, nil
	}
	content, err := compressed(lines)
	c.Size = int64(len(content))
	return content, err
}

func (w *Writer) known(c *Chunk) bool {
	size, ok := w.have[c.Object()]
	if ok {
		c.Size = size
	}
	return ok
}

// StoreTables stores those chunks that the repository lacks. They can be read then.
func (w *Writer) StoreTables(ctx context.Context) error {
	for _, t := range w.Manifest.Tables {
		for _, c := range t.Chunks {
			if w.known(&c) {
				continue
			}
			content, err := os.ReadFile(filepath.Join(w.spool, string(c.Object())))
			if err != nil {
				return err
			}
			if err := w.put(ctx, c.Object(), content); err != nil {
				return err
			}
		}
	}
	return w.batch.Commit(ctx)
}

// put stores a chunk or a pack.
func (w *Writer) put(ctx context.Context, name bytestore.Name, content []byte) error {
	err := w.Put(ctx, name, bytes.NewReader(content), int64(len(content)))
	if err == nil {
		w.have[name] = int64(len(content))
		w.count.objects++
		w.count.bytes += int64(len(content))
	}
	return err
}

// forget removes a chunk or a pack that was found to be damaged, so that it is stored again if this
// backup needs it.
func (w *Writer) forget(ctx context.Context, name bytestore.Name) error {
	delete(w.have, name)
	return w.repo.Bytes.Delete(ctx, name)
}

// Stored returns how many chunks and packs were stored, and their bytes.
func (w *Writer) Stored() (objects, bytes int64) { return w.count.objects, w.count.bytes }

// Put stores an object, or nothing if there is one with this name. It may be called concurrently.
// The object can be relied on when Finish has returned.
func (w *Writer) Put(ctx context.Context, name bytestore.Name, src io.Reader, size int64) error {
	if w.Limit != nil {
		if err := w.Limit(ctx, size); err != nil {
			return err
		}
	}
	if err := w.batch.Put(ctx, name, src, size); err != nil {
		return fmt.Errorf("storing %s: %w", name, err)
	}
	return nil
}

// Finish stores the manifest, with which the backup exists, when everything that it needs is
// durable.
func (w *Writer) Finish(ctx context.Context) (*Manifest, error) {
	if err := w.batch.Commit(ctx); err != nil {
		return nil, err
	}
	w.Manifest.Format, w.Manifest.Ended = Format, time.Now().UTC()
	m := w.Manifest
	return &m, w.repo.put(ctx, &m)
}
