// Package instance has operations on a whole instance, its metadata and its bytes,
// while no node serves it.
package instance

import (
	"errors"
	"fmt"

	"sluice/internal/storage"
)

// Location says where the two parts of an instance are stored. Each part that has
// no DSN is in the data folder.
type Location struct {
	// Data is the path of the data folder. It may be empty if both parts have a DSN.
	Data string
	// Meta is the DSN of the PostgreSQL database for the metadata, such as
	// postgres://USER@HOST/NAME.
	Meta string
	// Bytes is the DSN of the object store for the bytes, such as
	// s3://BUCKET/PREFIX?endpoint=https://HOST. The credentials are read from the
	// environment, as the AWS SDKs do.
	Bytes string
}

// validate returns an error if a part has no place. It repeats no DSN: a DSN may
// contain a password.
func (l Location) validate() error {
	if l.Data == "" && (l.Meta == "" || l.Bytes == "") {
		return errors.New("a data folder, or DSNs of both the metadata and the bytes, is required")
	}
	if err := storage.Location(l).Validate(""); err != nil {
		return fmt.Errorf("DSN of the %w", err)
	}
	return nil
}
