package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"
)

// readConfig reads a configuration file, a YAML mapping of the names of flags to
// their values. An unknown key is an error: ignoring it would hide a mistyped
// setting.
func readConfig(r io.Reader) (kong.Resolver, error) {
	values := map[string]yaml.Node{}
	if err := yaml.NewDecoder(r).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return configFile(values), nil
}

// configFile maps names of flags to values. It keeps the nodes because a scalar is
// used as it is written: 0x10 is an address, not a number.
type configFile map[string]yaml.Node

// Validate returns an error if a key is not a setting. All commands share one file.
func (c configFile) Validate(app *kong.Application) error {
	settings := settingsOf(app)
	for key := range c {
		if settings[key] == nil || key == "config" {
			return fmt.Errorf("the configuration file has the unknown key %q", key)
		}
	}
	return nil
}

// Resolve returns the value of a flag that neither the command line nor the
// environment has set. It implements kong.Resolver.
func (c configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if _, set := os.LookupEnv(name); set {
			return nil, nil
		}
	}
	value, ok := c[flag.Name]
	if !ok {
		return nil, nil
	}
	switch value.Kind {
	case yaml.ScalarNode:
		return value.Value, nil
	case yaml.SequenceNode:
		var list []any
		for _, item := range value.Content {
			list = append(list, item.Value)
		}
		return list, nil
	default:
		return nil, fmt.Errorf("the configuration file must contain a value or a list for %s", flag.Name)
	}
}
