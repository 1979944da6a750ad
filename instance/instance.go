// Package instance has operations on a whole instance, its metadata and its bytes, while no node
// serves it.
package instance

import (
	"errors"
	"fmt"

	"sluice/storage"
)

// Location is the place where an instance is stored: its data folder, and a DSN for each part that
// is elsewhere. Credentials for an object store are read from the environment, as the AWS SDKs do.
type Location = storage.Location

// checkLocation returns an error if a part has no place. It repeats no DSN: a DSN may contain a
// password.
func checkLocation(l Location) error {
	if l.Data == "" && (l.Meta == "" || l.Bytes == "") {
		return errors.New("a data folder, or DSNs of both the metadata and the bytes, is required")
	}
	if err := l.Validate(""); err != nil {
		return fmt.Errorf("DSN of the %w", err)
	}
	return nil
}
