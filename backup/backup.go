// Package backup keeps backups of instances in a byte store, a folder or a bucket, the repository.
// It knows nothing of instances and databases: package instance makes and restores backups.
//
// A repository has these objects, and never changes one:
//
//   - the instance's own objects, under their own names and with their own bytes;
//   - chunks of tables, "rows-" and the first 56 hexadecimal digits of their lines' SHA-256. A
//     chunk is compressed with gzip. Each line is a row, a JSON array: integers are numbers, bytes
//     are strings in base64, NULL is null;
//   - packs of inline bodies, "pack-" and the first 56 digits of their bytes' SHA-256. The table
//     bodies has each body's place in a pack;
//   - manifests, "manifest-", the snapshot's time, and the first 24 digits of its bytes' SHA-256. A
//     manifest is the JSON of Manifest. It is written last: a backup without one does not exist,
//     and the next backup uses its objects, or Prune removes them.
//
// Backups share objects, chunks and packs: where a chunk ends depends on the keys around, so that
// the same rows make the same chunk whatever was stored or deleted before them. A body stays in the
// pack that the first backup with it has stored, as long as half of that pack is needed.
package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sluice/bytestore"
)

// Errors that a Repository's methods return, wrapped.
var (
	// ErrDamaged is returned if an object in the repository is missing, cut or changed.
	ErrDamaged = errors.New("backup: damaged")
	// ErrNotFound is returned if the repository has no such backup.
	ErrNotFound = errors.New("backup: there is no such backup")
	// ErrInUse is returned if one process makes a backup and another would remove objects from the
	// repository.
	ErrInUse = errors.New("backup: another process uses the repository")
)

// Format is the format's number, which this version writes and reads.
const Format = 1

// Manifest describes a backup.
type Manifest struct {
	Format     int               `json:"format"`
	Instance   string            `json:"instance"`
	Generation int64             `json:"generation"`
	Snapshot   time.Time         `json:"snapshot"` // the backup has everything committed before it
	Ended      time.Time         `json:"ended"`
	Program    string            `json:"program"` // version
	Schema     int               `json:"schema"`
	Properties map[string]string `json:"properties"`
	Tables     []Table           `json:"tables"` // in the order in which they must be restored
	Packs      []Pack            `json:"packs"`
	Blobs      int64             `json:"blobs"`
	Objects    int64             `json:"objects"` // to which the tables refer, and their bytes
	Bytes      int64             `json:"bytes"`
	Damaged    []string          `json:"damaged"` // objects that the instance lacked, so the backup lacks them

	name bytestore.Name
}

// Table is a table's rows.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Key     int      `json:"key"` // so many columns order the rows
	Rows    int64    `json:"rows"`
	Chunks  []Chunk  `json:"chunks"`
}

// Chunk is an object with some rows of a table.
type Chunk struct {
	SHA256 string `json:"sha256"` // of its lines
	Rows   int64  `json:"rows"`
	Size   int64  `json:"size"` // compressed
}

// Pack is an object with inline bodies.
type Pack struct {
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Object returns the chunk's name in the repository.
func (c Chunk) Object() bytestore.Name { return named(chunkPrefix, c.SHA256) }

// Object returns the pack's name in the repository.
func (p Pack) Object() bytestore.Name { return named(packPrefix, p.SHA256) }

const (
	chunkPrefix    = "rows-"
	packPrefix     = "pack-"
	manifestPrefix = "manifest-"
	nameDigits     = 56
	timeLayout     = "20060102t150405.000z"
)

func named(prefix, sum string) bytestore.Name {
	return bytestore.Name(prefix + sum[:min(nameDigits, len(sum))])
}

// ID returns the backup's id, by which users name it.
func (m *Manifest) ID() string { return idOf(m.name) }

// Table returns a table, or nil.
func (m *Manifest) Table(name string) *Table {
	i := slices.IndexFunc(m.Tables, func(t Table) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Tables[i]
}

// Repository is a byte store with backups.
type Repository struct{ Bytes bytestore.Store }

// put stores a manifest, which makes the backup exist.
func (r *Repository) put(ctx context.Context, m *Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	m.name = manifestName(m.Snapshot, text)
	return r.Bytes.Put(ctx, m.name, bytes.NewReader(text), int64(len(text)))
}

func manifestName(at time.Time, text []byte) bytestore.Name {
	sum := sha256.Sum256(text)
	stamp := strings.Replace(at.UTC().Format(timeLayout), ".", "", 1)
	return bytestore.Name(manifestPrefix + stamp + "-" + hex.EncodeToString(sum[:12]))
}

// List returns the ids of all backups, the oldest first.
func (r *Repository) List(ctx context.Context) (ids []string, err error) {
	found, err := r.objects(ctx, manifestPrefix)
	for _, o := range found {
		ids = append(ids, idOf(o.Name))
	}
	return ids, err
}

func idOf(name bytestore.Name) string { return strings.TrimPrefix(string(name), manifestPrefix) }

var errEnd = errors.New("end")

// objects returns the objects that have names with a prefix, in order.
func (r *Repository) objects(ctx context.Context, prefix string) (list []bytestore.Object, err error) {
	// A listing begins after a name, and the prefix itself may be one.
	err = r.Bytes.List(ctx, bytestore.Name(prefix[:len(prefix)-1]), func(o bytestore.Object) error {
		switch {
		case strings.HasPrefix(string(o.Name), prefix):
			list = append(list, o)
		case string(o.Name) > prefix:
			return errEnd
		}
		return nil
	})
	if errors.Is(err, errEnd) {
		err = nil
	}
	return list, err
}

// Open reads a backup's manifest, which the beginning of its id identifies, or the newest manifest
// if id is empty. It returns ErrNotFound, or ErrDamaged if the manifest has changed.
func (r *Repository) Open(ctx context.Context, id string) (*Manifest, error) {
	list, err := r.objects(ctx, manifestPrefix+id)
	if err != nil {
		return nil, err
	}
	switch {
	case len(list) == 0 && id == "":
		return nil, fmt.Errorf("%w: the repository is empty", ErrNotFound)
	case len(list) == 0:
		return nil, fmt.Errorf("%w: %s", ErrNotFound, id)
	case len(list) > 1 && id != "":
		return nil, fmt.Errorf("%w: %d ids begin with %s", ErrNotFound, len(list), id)
	}
	return r.manifest(ctx, list[len(list)-1])
}

// maxManifest bounds the memory that a manifest needs. A database of a terabyte has one of 200 MB.
const maxManifest = 256 << 20

func (r *Repository) manifest(ctx context.Context, o bytestore.Object) (*Manifest, error) {
	name := o.Name
	if o.Size > maxManifest {
		return nil, fmt.Errorf("%w: %s has %d bytes", ErrDamaged, name, o.Size)
	}
	text, err := r.read(ctx, name, o.Size)
	if err != nil {
		return nil, err
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil || manifestName(m.Snapshot, text) != name {
		return nil, fmt.Errorf("%w: %s does not have the content by which it is named", ErrDamaged, name)
	}
	if m.Format != Format {
		return nil, fmt.Errorf("backup: %s has format %d, and this version reads %d", name, m.Format, Format)
	}
	m.name = name
	return &m, nil
}

// read returns an object of this size.
func (r *Repository) read(ctx context.Context, name bytestore.Name, size int64) (_ []byte, err error) {
	from, err := r.Bytes.Open(ctx, name, 0, size)
	if errors.Is(err, bytestore.ErrNotFound) || errors.Is(err, bytestore.ErrTruncated) {
		return nil, fmt.Errorf("%w: %s is missing or cut: %w", ErrDamaged, name, err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	text := make([]byte, size)
	if _, err := io.ReadFull(from, text); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return text, nil
}
