package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"
)

// readConfig makes a resolver of a configuration file: a mapping of flags,
// without their dashes, to their values. A key that is no flag is an error: it
// would be a setting that somebody relies on.
func readConfig(r io.Reader) (kong.Resolver, error) {
	values := map[string]yaml.Node{}
	if err := yaml.NewDecoder(r).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	return configFile(values), nil
}

// The values are kept as they are written: 0x10 is an address, not a number.
type configFile map[string]yaml.Node

// Validate refuses keys that are no settings. Those are the flags that have
// variables, of whichever command: all of them share one file.
func (c configFile) Validate(app *kong.Application) error {
	known := map[string]bool{}
	for _, command := range app.Leaves(false) {
		for _, flag := range command.Flags {
			known[flag.Name] = known[flag.Name] || len(flag.Envs) > 0 && flag.Name != "config"
		}
	}
	for key := range c {
		if !known[key] {
			return fmt.Errorf("the configuration file has the key %q, which is no flag", key)
		}
	}
	return nil
}

// Resolve gives the value of a flag that neither the command line nor the
// environment has set.
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
		return nil, fmt.Errorf("the configuration file must have a value or a list for %s", flag.Name)
	}
}
