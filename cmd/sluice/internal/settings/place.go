package settings

import (
	"context"
	"errors"
	"path/filepath"

	"sluice/access/keys"
	"sluice/database/whole"
	"sluice/instance"
	"sluice/storage"
)

// MetaFlags name the place of the metadata. They have the settings' help and defaults.
type MetaFlags struct {
	Config configFlag `placeholder:"FILE" help:"Configuration file of serve."`
	Data   string     `default:"${data}" help:"${data_help}"`
	Meta   string     `placeholder:"DSN" help:"${meta_help}"`
}

// WithMeta calls fn with the metadata, which it creates if create is set. Root opens them as the
// data folder's owner.
func (f MetaFlags) WithMeta(ctx context.Context, create bool, fn func(context.Context, whole.Database) error) error {
	l := storage.Location{Data: f.Data, Meta: f.Meta}
	if !l.Shared() {
		if err := asOwner(l.Data); err != nil {
			return err
		}
	}
	stores, err := storage.OpenMeta(ctx, l, create)
	if err != nil {
		return err
	}
	return errors.Join(fn(ctx, stores.Meta), stores.Close())
}

// InstanceFlags name the places of an instance.
type InstanceFlags struct {
	MetaFlags `embed:""`
	Bytes     string `placeholder:"DSN" help:"${bytes_help}"`
}

// Validate reports all errors.
func (f InstanceFlags) Validate() error { return f.Location().Validate("--") }

// Location returns the places, without the data folder if nodes may have it.
func (f InstanceFlags) Location() instance.Location {
	l := instance.Location{Data: f.Data, Meta: f.Meta, Bytes: f.Bytes}
	if l.Meta != "" && l.Bytes != "" {
		l.Data = ""
	}
	return l
}

// Absolute returns a folder's absolute path if it is known, and path otherwise.
func Absolute(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		return absolute
	}
	return path
}

// KeyLimitsFlag is the setting key-limits, for commands that show the limits in force.
type KeyLimitsFlag struct {
	KeyLimits limitList `name:"key-limits" placeholder:"LIMIT=N" help:"${key-limits_help}"`
}

// Limits returns the limits of groups that have none of their own.
func (f KeyLimitsFlag) Limits() keys.Limits { return keys.Limits(f.KeyLimits).Resolve(KeyDefaults) }

// ReadsFlag is the setting reads, for commands on places.
type ReadsFlag struct {
	Reads string `name:"reads" placeholder:"WHO" help:"${reads_help}"`
}
