package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sluice/internal/vfs"
)

// The content of recordFile: one of these words, and the vfs.Identity of the database's file. A
// copy of the folder has the same record and another file.
const (
	recordedWhole   = "whole"
	recordedDamaged = "damaged"
)

// Trust is the state of the database's file as earlier processes recorded it.
type Trust int

const (
	// Unknown means that the file may be damaged. None is recorded in this folder, as in a folder
	// from an earlier version, or another file is, because this one was copied, restored or moved
	// to another file system.
	Unknown Trust = iota
	// Whole means that RecordWhole was called for the file.
	Whole
	// Damaged means that RecordDamaged was called, for this file or for one that it has replaced.
	Damaged
)

// Trust returns the recorded state of the database's file, which must exist.
func (d *Dir) Trust() (Trust, error) { return TrustOf(d.path) }

// TrustOf is Trust for the folder at path, which need not be locked.
func TrustOf(path string) (Trust, error) {
	text, err := os.ReadFile(filepath.Join(path, recordFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Unknown, fmt.Errorf("cannot read the record about the database: %w", err)
	}
	word, recorded, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	if word == recordedDamaged {
		return Damaged, nil
	}
	identity, err := vfs.Identity(filepath.Join(path, Database))
	if err != nil {
		return Unknown, fmt.Errorf("cannot identify the database: %w", err)
	}
	if word == recordedWhole && recorded == identity {
		return Whole, nil
	}
	return Unknown, nil
}

// RecordWhole records durably that the database's file is whole, or itself records its known
// damage.
func (d *Dir) RecordWhole() error { return d.record(recordedWhole) }

// RecordDamaged records durably that the database is damaged. The record holds for a file that
// replaces the database, too, until RecordWhole.
func (d *Dir) RecordDamaged() error { return d.record(recordedDamaged) }

// record replaces recordFile. If it is interrupted, the old record is there or the new one.
func (d *Dir) record(word string) error {
	identity, err := vfs.Identity(d.Path(Database))
	if err == nil {
		err = writeFile(d.Path(recordNew), word+" "+identity+"\n")
	}
	if err == nil {
		err = os.Rename(d.Path(recordNew), d.Path(recordFile))
	}
	if err != nil {
		return fmt.Errorf("cannot record which file is the database: %w", err)
	}
	return d.Sync()
}
