package main

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"

	"sluice/access/keys"
	"sluice/node"
	"sluice/storage"
)

// serveFlags are the flags of serve. Each has an environment variable (--base-path is
// SLUICE_BASE_PATH) and a key in the configuration file (base-path). The flag overrides the
// variable, and the variable overrides the file.
type serveFlags struct {
	Config configFlag `placeholder:"FILE" help:"YAML file with flags, such as base-path: /sluice. Environment variables and flags override it."`
	settingFlags
}

// settingFlags are the flags of some settings.
type settingFlags struct {
	// Values points to a struct with a field for each setting. newSettingFlags creates its type,
	// because kong defines flags by struct fields.
	Values any `embed:""`

	configuration *configuration
	table         []setting
}

// newServeFlags returns flags for all settings.
func newServeFlags() serveFlags { return serveFlags{settingFlags: newSettingFlags(settingTable)} }

// newSettingFlags returns flags for a table's settings.
func newSettingFlags(table func(*configuration) []setting) settingFlags {
	c := &configuration{node: node.Config{Version: version()}}
	f := settingFlags{configuration: c, table: table(c)}
	var fields []reflect.StructField
	for _, s := range f.table {
		fields = append(fields, s.field())
	}
	f.Values = reflect.New(reflect.StructOf(fields)).Interface()
	return f
}

// read sets the configuration to the flags' values, and to the defaults.
func (f *settingFlags) read() *configuration {
	flags := reflect.ValueOf(f.Values).Elem()
	for i, s := range f.table {
		s.value.take(flags.Field(i))
	}
	for _, s := range f.table {
		s.value.complete()
	}
	return f.configuration
}

// Validate reports all errors.
func (f *serveFlags) Validate() error {
	c := f.read()
	errs := removedVariables(environment())
	for _, s := range f.table {
		errs = append(errs, s.validate(c.node.Profile, c.hasChain()))
	}
	config := c.nodeConfig()
	return errors.Join(append(errs, c.validateEphemeral(), config.Validate())...)
}

// hasChain reports whether payments are collected on a chain.
func (c *configuration) hasChain() bool { return len(c.node.ChainURLs) > 0 }

// nodeConfig returns the node's configuration.
func (c *configuration) nodeConfig() node.Config {
	config := c.node
	config.Storage.BlobCache, config.SmallObjects = c.memoryCache*2/3, c.memoryCache/3
	config.KeyLimits, config.AddressLimits = keys.Limits(c.keyLimits), keys.Limits(c.addressLimits)
	if c.adminAddr != adminOff {
		config.AdminAddr = c.adminAddr
	}
	return config
}

// validateEphemeral rejects the settings that name where something is kept.
func (c *configuration) validateEphemeral() error {
	switch location := c.node.Location; {
	case !c.ephemeral:
		return nil
	case location.Meta != "" || location.Bytes != "":
		return errors.New("--ephemeral: keeps nothing, so it excludes --meta and --bytes")
	case location.Data != defaultData:
		return errors.New("--ephemeral: keeps nothing, so it excludes --data")
	}
	return nil
}

// effectiveSetting is a setting's effective value, with passwords masked.
type effectiveSetting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`  // a string, or a list of strings
	Source string `json:"source"` // the command line, a variable, a file and line, or the default
}

// effective returns the effective settings in the table's order.
func (f *settingFlags) effective(console *console) []effectiveSetting {
	var all []effectiveSetting
	for _, s := range f.table {
		value := s.effective(f.configuration.node.Profile, f.configuration.hasChain())
		if strings.Contains(value, "://") {
			value = storage.Redacted(value)
		}
		flag := flagOf(console.parsed.Selected(), s.name)
		e := effectiveSetting{s.name, value, sourceOf(console.parsed, flag, &console.parser.read)}
		if list, isList := s.value.list(); isList {
			e.Value = append([]string{}, list...)
		}
		all = append(all, e)
	}
	return all
}

// settingAttrs returns the settings that have a value, for the log.
func settingAttrs(settings []effectiveSetting) []any {
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
