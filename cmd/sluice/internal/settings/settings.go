// Package settings has the settings of serve: flags, variables and keys of the configuration file,
// which the commands on an instance read, too.
package settings

import (
	"errors"
	"log/slog"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"sluice/access/keys"
	"sluice/cmd/sluice/internal/cli"
	"sluice/internal/logbuffer"
	"sluice/node"
	"sluice/storage"
)

// ServeFlags are the flags of serve. Each has an environment variable (--base-path is
// SLUICE_BASE_PATH) and a key in the configuration file (base-path). The flag overrides the
// variable, and the variable overrides the file.
type ServeFlags struct {
	Config configFlag `placeholder:"FILE" help:"YAML file with flags, such as base-path: /sluice. Environment variables and flags override it."`
	Flags
}

// Flags are the flags of some settings.
type Flags struct {
	// Values points to a struct with a field for each setting. newSettingFlags creates its type,
	// because kong defines flags by struct fields.
	Values any `embed:""`

	Configuration *Configuration `kong:"-"`
	table         []Setting
}

// NewServeFlags returns flags for all settings.
func NewServeFlags() ServeFlags { return ServeFlags{Flags: NewFlags(Table)} }

// NewFlags returns flags for a table's settings.
func NewFlags(table func(*Configuration) []Setting) Flags {
	c := &Configuration{Node: node.Config{Version: cli.Version()}}
	f := Flags{Configuration: c, table: table(c)}
	var fields []reflect.StructField
	for _, s := range f.table {
		fields = append(fields, s.field())
	}
	f.Values = reflect.New(reflect.StructOf(fields)).Interface()
	return f
}

// Read sets the configuration to the flags' values, and to the defaults.
func (f *Flags) Read() *Configuration {
	flags := reflect.ValueOf(f.Values).Elem()
	for i, s := range f.table {
		s.Value.take(flags.Field(i))
	}
	for _, s := range f.table {
		s.Value.complete()
	}
	return f.Configuration
}

// Validate reports all errors.
func (f *ServeFlags) Validate() error {
	c := f.Read()
	errs := RemovedVariables(Environment())
	for _, s := range f.table {
		errs = append(errs, s.validate(c.Node.Profile, c.hasChain()))
	}
	config := c.NodeConfig()
	return errors.Join(append(errs, c.validateEphemeral(), config.Validate())...)
}

// hasChain reports whether payments are collected on a chain.
func (c *Configuration) hasChain() bool { return len(c.Node.ChainURLs) > 0 }

// NodeConfig returns the node's configuration.
func (c *Configuration) NodeConfig() node.Config {
	config := c.Node
	config.Storage.BlobCache = c.memoryCache
	config.KeyLimits, config.AddressLimits = keys.Limits(c.keyLimits), keys.Limits(c.addressLimits)
	if c.adminAddr != adminOff {
		config.AdminAddr = c.adminAddr
	}
	return config
}

// validateEphemeral rejects the settings that name where something is kept.
func (c *Configuration) validateEphemeral() error {
	switch location := c.Node.Location; {
	case !c.Ephemeral:
		return nil
	case location.Meta != "" || location.Bytes != "":
		return errors.New("--ephemeral: keeps nothing, so it excludes --meta and --bytes")
	case location.Data != DefaultData:
		return errors.New("--ephemeral: keeps nothing, so it excludes --data")
	}
	return nil
}

// Value is a setting's effective value, with passwords masked.
type Value struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`  // a string, or a list of strings
	Source string `json:"source"` // the command line, a variable, a file and line, or the default
}

// Effective returns the effective settings in the table's order.
func (f *Flags) Effective(parsed *kong.Context, read *File) []Value {
	var all []Value
	for _, s := range f.table {
		value := s.effective(f.Configuration.Node.Profile, f.Configuration.hasChain())
		if strings.Contains(value, "://") {
			value = storage.Redacted(value)
		}
		flag := FlagOf(parsed.Selected(), s.Name)
		e := Value{s.Name, value, SourceOf(parsed, flag, read)}
		if list, isList := s.Value.list(); isList {
			e.Value = append([]string{}, list...)
		}
		all = append(all, e)
	}
	return all
}

// Attrs returns the settings that have a value, for the log.
func Attrs(settings []Value) []any {
	var attrs []any
	for _, s := range settings {
		value, isText := s.Value.(string)
		if !isText {
			value = strings.Join(s.Value.([]string), ",")
		}
		if value != "" {
			attrs = append(attrs, slog.String(s.Name, value))
		}
	}
	return attrs
}

// Environment returns the process's environment. It is a variable for tests.
var Environment = os.Environ

// ForDeveloper reports whether the lines about requests are for a developer, who sees the log on a
// terminal, and may see the names in it because the instance is local.
func (c *Configuration) ForDeveloper(onTerminal bool) bool {
	return onTerminal && c.Node.Profile == node.Local && c.LogFormat == logbuffer.Text
}
