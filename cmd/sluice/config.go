package main

import (
	"encoding"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v4"

	"sluice/internal/node"
	"sluice/internal/storage"
	"sluice/internal/terminal"
	"sluice/metastore"
)

// configCommand inspects the configuration of serve without running it.
type configCommand struct {
	Check configCheck `cmd:"" help:"Check the flags, the variables and the configuration file of serve."`
	Print configPrint `cmd:"" help:"Print the effective settings of serve, and where each was set. Passwords are masked."`
}

type configCheck struct {
	serveFlags
}

// Help returns examples.
func (configCheck) Help() string { return examples("sluice config check --config sluice.yaml") }

// Run prints that the configuration is valid: kong has called Validate before.
func (c *configCheck) Run(console *console) error {
	return printLine(console.out, "The configuration is valid.")
}

type configPrint struct {
	serveFlags
	outputFlags
}

// Help returns examples.
func (configPrint) Help() string {
	return examples("sluice config print", "sluice config print --config sluice.yaml --json")
}

// printedSetting is a setting in JSON.
type printedSetting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`  // a string, or a list of strings
	Source string `json:"source"` // the command line, a variable, a file and line, or the default
}

// Run prints the settings as lines of a configuration file, with their sources as comments.
func (c *configPrint) Run(console *console) error {
	own := map[string]bool{"json": true, "quiet": true, "config": true, "help": true, "version": true}
	defaults := c.dependentDefaults()
	for _, flag := range console.parsed.Selected().Flags {
		if own[flag.Name] {
			continue
		}
		value := settingOf(flag)
		if value == "" {
			value = defaults[flag.Name]
		}
		setting := printedSetting{flag.Name, value, sourceOf(console.parsed, flag, &console.parser.read)}
		if list, isList := flag.Target.Interface().([]string); isList {
			setting.Value = append([]string{}, list...)
		}
		if flag.Name == "meta" || flag.Name == "bytes" {
			setting.Value = storage.Redacted(value)
		}
		var err error
		if c.JSON {
			err = terminal.WriteJSON(console.out, setting)
		} else {
			err = writeSetting(console.out, setting)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settingWidth is the column before which the sources of settings begin, unless a setting is longer.
const settingWidth = 38

// writeSetting writes a setting as a line of YAML with a comment. A setting without a value is a
// comment.
func writeSetting(out io.Writer, s printedSetting) error {
	if s.Value == "" {
		_, err := fmt.Fprintf(out, "%-*s # %s\n", settingWidth, "# "+s.Name+":", terminal.Text(s.Source))
		return err
	}
	text, err := yaml.Marshal(map[string]any{s.Name: s.Value})
	if err != nil {
		return err
	}
	if list, isList := s.Value.([]string); isList {
		var items []string
		for _, item := range list {
			quoted, err := yaml.Marshal(item)
			if err != nil {
				return err
			}
			items = append(items, strings.TrimSpace(string(quoted)))
		}
		text = []byte(s.Name + ": [" + strings.Join(items, ", ") + "]")
	}
	_, err = fmt.Fprintf(out, "%-*s # %s\n", settingWidth, terminal.Text(strings.TrimSpace(string(text))), terminal.Text(s.Source))
	return err
}

// settingOf returns the value of a flag as it is written in a configuration file, or "" if it has
// none.
func settingOf(flag *kong.Flag) string {
	target := flag.Target
	if target.Kind() == reflect.Pointer {
		if target.IsNil() {
			return ""
		}
		target = target.Elem()
	}
	switch value := target.Interface().(type) {
	case time.Duration:
		return value.String()
	case encoding.TextMarshaler:
		if text, err := value.MarshalText(); err == nil {
			return strings.ToLower(string(text))
		}
	case fmt.Stringer:
		return value.String()
	case []string:
		return strings.Join(value, ",")
	}
	if target.Kind() == reflect.Int && target.IsZero() && !flag.HasDefault {
		return ""
	}
	return fmt.Sprint(target.Interface())
}

// dependentDefaults returns the values of the settings that are not set and whose default depends on
// others, or on the instance.
func (c *serveFlags) dependentDefaults() map[string]string {
	config := c.nodeConfig()
	admin := config.AdminAddr
	if admin == "" {
		admin = adminOff
	}
	values := map[string]string{
		"admin-addr":                  admin,
		"reads":                       string(config.Reads),
		"drain-wait":                  config.DrainWait.String(),
		"garbage-grace":               config.GarbageGrace.String(),
		"max-connections-per-address": count(c.MaxConnectionsPerAddress).String(),
	}
	for _, k := range metastore.LimitKinds {
		for prefix, limits := range map[string]metastore.Limits{"key-": config.KeyLimits, "address-": config.AddressLimits} {
			limit := *k.Of(&limits)
			if prefix == "key-" && config.Profile == node.Local {
				continue // they have no effect, and cannot be set
			}
			if values[prefix+k.Flag()] = count(limit).String(); k.Bytes {
				values[prefix+k.Flag()] = size(limit).String()
			}
		}
	}
	return values
}
