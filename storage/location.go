package storage

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"sluice/bytestore/cached"
	"sluice/bytestore/s3"
	"sluice/history"
)

// Location is where an instance's two parts are.
type Location struct {
	Data  string // the data folder, for the parts that have no DSN
	Meta  string // a PostgreSQL database's DSN, for the metadata; "" for SQLite in Data
	Bytes string // an object store's DSN, for the bytes; "" for files in Data
}

// Shared reports whether the metadata is in a PostgreSQL database, on which several
// nodes may run.
func (l Location) Shared() bool {
	return strings.HasPrefix(l.Meta, "postgres://") || strings.HasPrefix(l.Meta, "postgresql://")
}

// Remote reports whether the bytes are in an object store.
func (l Location) Remote() bool { return strings.HasPrefix(l.Bytes, "s3://") }

// Validate reports all errors in the DSNs. It names them by their flags, which begin
// with prefix, and repeats no DSN: a DSN may contain a password.
func (l Location) Validate(prefix string) error {
	var errs []error
	if l.Meta != "" && !l.Shared() {
		errs = append(errs, fmt.Errorf("%smeta: want postgres://USER@HOST/NAME, or nothing for a database in the data folder", prefix))
	}
	if l.Bytes != "" {
		if _, err := s3.ParseDSN(l.Bytes); err != nil {
			errs = append(errs, fmt.Errorf("%sbytes: %w", prefix, err))
		}
	}
	return errors.Join(errs...)
}

// Redacted returns a DSN with its secrets masked: the user's password, and each parameter that has
// a name with pass, secret, token or key in it. A DSN that cannot be parsed is masked as a whole.
func Redacted(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return "xxxxx"
	}
	query, masked := u.Query(), false
	for name := range query {
		for _, word := range []string{"pass", "secret", "token", "key"} {
			if strings.Contains(strings.ToLower(name), word) {
				query.Set(name, "xxxxx")
				masked = true
			}
		}
	}
	if masked {
		u.RawQuery = query.Encode()
	}
	return u.Redacted()
}

// Options set where and how a node keeps a SQLite database, and the sizes of its cache and staging
// in front of an object store. These sizes have no effect if the bytes are in files.
type Options struct {
	Database string // the database's folder; "" for the data folder

	Cache       string // the cache's folder; "" for none
	CacheSize   int64  // bytes, at least MinCacheSize
	StagingSize int64  // bytes of extents on their way to the object store, at least MinStagingSize; 0 for a default
	BlobCache   int64  // bytes of small blobs cached in memory, used without PostgreSQL; 0 for none
	OpenFiles   int    // localfs.Options.OpenFiles

	// HealFrom is a second store, from which damaged objects are healed: an object store's DSN, or
	// a folder, either a data folder or one with objects alone; "" for none.
	HealFrom string

	// Node and Done are history.Options'.
	Node string
	Done func() history.Done

	// Looking is called while a database is checked that is not recorded as whole, first when it
	// begins and then after each step. If it returns an error, Open fails. nil: nothing is called.
	Looking func(Steps) error
	// Damaged is called if the quick check has found that the database is damaged, from when on it
	// refuses writes, or if the check could not be made. It is called at most once, perhaps before
	// Open returns. nil: nothing is called.
	Damaged func(error)
}

// withFunctions returns the options with all functions but Done set.
func (o Options) withFunctions() Options {
	if o.Looking == nil {
		o.Looking = func(Steps) error { return nil }
	}
	if o.Damaged == nil {
		o.Damaged = func(error) {}
	}
	return o
}

const (
	// MinCacheSize is a cache's smallest size, in bytes.
	MinCacheSize = cached.MinSize
	// MinStagingSize is two extents, so that one can be sent while the next is
	// received.
	MinStagingSize = 2 * remoteExtentSize
)

// remoteExtentSize is an object's greatest size in an object store. It is smaller than in a folder
// because the node stages an extent before it sends it, and sends all of it again if it repeats the
// request.
const remoteExtentSize = 16 << 20
